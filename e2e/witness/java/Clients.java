package io.geobridge.witness;

import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.config.BackoffPolicy;
import org.apache.pulsar.client.api.v5.config.ConnectionPolicy;

/** One V5 client and one classic client for each service URL and use. */
final class Clients {
    private final Map<String, PulsarClient> v5 = new ConcurrentHashMap<>();
    private final Map<String, org.apache.pulsar.client.api.PulsarClient> classic = new ConcurrentHashMap<>();

    /** The V5 client of a use at url; each use has connections of its own. */
    PulsarClient v5(String url, String use) {
        return v5.computeIfAbsent(url + " " + use, key -> open(url));
    }

    /** Closes the V5 client of a use that has ended. */
    void leave(String url, String use) throws Exception {
        PulsarClient client = v5.remove(url + " " + use);
        if (client != null) {
            client.close();
        }
    }

    private static PulsarClient open(String url) {
        try {
            ConnectionPolicy policy = ConnectionPolicy.builder()
                    .connectionBackoff(BackoffPolicy.exponential(Duration.ofMillis(100), Duration.ofSeconds(2))).build();
            return PulsarClient.builder().serviceUrl(url).connectionPolicy(policy).build();
        } catch (Exception e) {
            throw new IllegalStateException(url, e);
        }
    }

    org.apache.pulsar.client.api.PulsarClient classic(String url) {
        return classic.computeIfAbsent(url, key -> {
            try {
                return org.apache.pulsar.client.api.PulsarClient.builder().serviceUrl(url).build();
            } catch (Exception e) {
                throw new IllegalStateException(url, e);
            }
        });
    }
}

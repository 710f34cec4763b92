package io.geobridge.witness;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.ProducerBuilder;
import org.apache.pulsar.client.api.v5.async.AsyncMessageBuilder;
import org.apache.pulsar.client.api.v5.auth.PemFileKeyProvider;
import org.apache.pulsar.client.api.v5.config.BatchingPolicy;
import org.apache.pulsar.client.api.v5.config.CompressionPolicy;
import org.apache.pulsar.client.api.v5.config.CompressionType;
import org.apache.pulsar.client.api.v5.config.ProducerEncryptionPolicy;
import org.apache.pulsar.client.api.v5.schema.Schema;

/**
 * Publishes numbered messages and tells which of them the broker receipted. Every message's value begins with
 * "id key seq ": an id of its own, its key ("-" for none) and its number among the messages of that key.
 *
 * <p>Events: "ready"; "sent" with items "id key seq" for receipted messages; "failed" with the same for those whose fate is
 * unknown; "done" at the end.
 */
final class Producing implements AutoCloseable, Witness.Task {
    private static final int IN_FLIGHT = 20_000;
    private final Out out;
    private final long id;
    private final JsonNode spec;
    private final Out.Batch sent;
    private final Out.Batch failed;
    private final Semaphore window = new Semaphore(IN_FLIGHT);
    private final AtomicLong receipts = new AtomicLong();
    private final Producer<byte[]> producer;
    private final byte[] filler;
    private volatile boolean stopping;

    Producing(Out out, Clients clients, long id, JsonNode spec) throws Exception {
        this.out = out;
        this.id = id;
        this.spec = spec;
        this.sent = new Out.Batch(out, id, "sent");
        this.failed = new Out.Batch(out, id, "failed");
        this.filler = filler(spec.path("size").asInt(100), spec.path("random").asBoolean(false));
        this.producer = builder(clients).create();
    }

    private ProducerBuilder<byte[]> builder(Clients clients) {
        ProducerBuilder<byte[]> builder = clients.v5(spec.path("url").asText(), "produce").newProducer(Schema.bytes())
                .topic(spec.path("topic").asText()).blockIfQueueFull(true)
                .sendTimeout(Duration.ofMillis(spec.path("sendTimeoutMs").asLong(180_000)));
        if (spec.hasNonNull("name")) {
            builder.producerName(spec.path("name").asText());
        }
        String codec = spec.path("compression").asText("NONE");
        builder.compressionPolicy(codec.equals("NONE") ? CompressionPolicy.disabled()
                : CompressionPolicy.of(CompressionType.valueOf(codec)));
        builder.batchingPolicy(spec.path("batchMessages").asInt(100) <= 1 ? BatchingPolicy.ofDisabled()
                : BatchingPolicy.builder().enabled(true).maxMessages(spec.path("batchMessages").asInt(100))
                        .maxPublishDelay(Duration.ofMillis(spec.path("batchDelayMs").asLong(10))).build());
        if (spec.hasNonNull("publicKey")) {
            builder.encryptionPolicy(ProducerEncryptionPolicy.builder().keyName("e2e").publicKeyProvider(
                    PemFileKeyProvider.builder().publicKey("e2e", Path.of(spec.path("publicKey").asText())).build()).build());
        }
        return builder;
    }

    @Override
    public void run() throws Exception {
        Thread flusher = new Thread(() -> {
            while (!stopping || window.availablePermits() < IN_FLIGHT) {
                LockSupport.parkNanos(TimeUnit.MILLISECONDS.toNanos(50));
                sent.flush();
                failed.flush();
            }
        });
        flusher.setDaemon(true);
        flusher.start();
        out.event(id, "ready", Map.of());
        publish();
        producer.async().flush();
        window.acquire(IN_FLIGHT);
        sent.flush();
        failed.flush();
        out.event(id, "done", Map.of("receipts", receipts.get()));
        stopping = true;
        window.release(IN_FLIGHT);
        producer.close();
    }

    private void publish() throws InterruptedException {
        long count = spec.path("count").asLong(0);
        double rate = spec.path("rate").asDouble(0);
        int keys = spec.path("keys").asInt(100);
        int keylessEvery = spec.path("keylessEvery").asInt(0);
        long[] seqs = new long[keys + 1];
        java.util.Arrays.fill(seqs, spec.path("firstSeq").asLong(1) - 1);
        Random random = new Random(spec.path("seed").asLong(1));
        long start = System.nanoTime();
        for (long n = 0; (count == 0 || n < count) && !stopping; n++) {
            boolean keyless = keylessEvery > 0 && n % keylessEvery == 0;
            int k = keyless ? keys : random.nextInt(keys);
            publishOne(n, keyless ? null : spec.path("keyPrefix").asText("k") + k, ++seqs[k]);
            if (rate > 0) {
                long due = start + (long) ((n + 1) / rate * 1e9);
                while (System.nanoTime() < due) {
                    LockSupport.parkNanos(due - System.nanoTime());
                }
            }
        }
    }

    private void publishOne(long n, String key, long seq) throws InterruptedException {
        String item = spec.path("idPrefix").asText("m") + "-" + n + " " + (key == null ? "-" : key) + " " + seq;
        byte[] head = (item + " ").getBytes(StandardCharsets.UTF_8);
        byte[] value = new byte[Math.max(head.length, filler.length)];
        System.arraycopy(filler, 0, value, 0, filler.length);
        System.arraycopy(head, 0, value, 0, head.length);
        AsyncMessageBuilder<byte[]> message = producer.async().newMessage().value(value);
        if (key != null) {
            message.key(key);
        }
        spec.path("properties").fields().forEachRemaining(p -> message.property(p.getKey(), p.getValue().asText()));
        window.acquire();
        message.send().whenComplete((receipt, error) -> {
            if (error == null) {
                receipts.incrementAndGet();
                sent.add(item);
            } else {
                failed.add(item);
            }
            window.release();
        });
    }

    /** Text that compresses about two to one, or noise that does not. */
    private static byte[] filler(int size, boolean random) {
        byte[] filler = new byte[size];
        Random source = new Random(size);
        source.nextBytes(filler);
        if (!random) {
            for (int i = 0; i < size; i++) {
                filler[i] = (byte) ('a' + (filler[i] & 15));
            }
        }
        return filler;
    }

    @Override
    public void close() {
        stopping = true;
    }
}

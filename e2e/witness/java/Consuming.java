package io.geobridge.witness;

import com.fasterxml.jackson.databind.JsonNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.Messages;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.StreamConsumerBuilder;
import org.apache.pulsar.client.api.v5.auth.PemFileKeyProvider;
import org.apache.pulsar.client.api.v5.config.ConsumerEncryptionPolicy;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;
import org.apache.pulsar.client.impl.v5.V5Interop;

/**
 * Reads a topic with several Stream consumers of one subscription, as an application would. What each receives is recorded
 * under one lock before it is acknowledged; since the broker gives a key to another consumer only when all that the first
 * one has of it is acknowledged, the order of the records is the order in which each key was seen.
 *
 * <p>Events: "ready" once all are subscribed; "got" with items "consumer position replicatedFrom id key seq", where position
 * is ledger:entry:index of the stored message (so a redelivery shows itself), and "-" stands for none.
 */
final class Consuming implements AutoCloseable, Witness.Task {
    private final Out out;
    private final long id;
    private final JsonNode spec;
    private final Clients clients;
    private final Out.Batch got;
    private final AtomicLong keyMismatches = new AtomicLong();
    private final List<StreamConsumer<byte[]>> consumers = new CopyOnWriteArrayList<>();
    private final List<Thread> threads = new ArrayList<>();
    private final CountDownLatch over = new CountDownLatch(1);
    private volatile boolean stopping;

    Consuming(Out out, Clients clients, long id, JsonNode spec) {
        this.out = out;
        this.clients = clients;
        this.id = id;
        this.spec = spec;
        this.got = new Out.Batch(out, id, "got");
    }

    @Override
    public void run() throws Exception {
        try {
            for (int i = 0; i < spec.path("consumers").asInt(1) && !stopping; i++) {
                consumers.add(subscribePatiently("c" + i));
            }
            if (read()) {
                out.event(id, "ready", Map.of());
            }
            for (Thread thread : threads) {
                thread.join();
            }
            out.event(id, "done", Map.of("mismatches", keyMismatches.get()));
        } finally { // what is open and not read would keep its share from others
            closeAll();
            clients.leave(spec.path("url").asText(), "consume-" + id);
            over.countDown();
        }
    }

    /** Starts a thread for each consumer, unless this has been closed meanwhile. */
    private synchronized boolean read() {
        if (stopping) {
            return false;
        }
        for (int i = 0; i < consumers.size(); i++) {
            StreamConsumer<byte[]> consumer = consumers.get(i);
            String name = "c" + i;
            Thread thread = new Thread(() -> receive(name, consumer));
            thread.setDaemon(true);
            thread.start();
            threads.add(thread);
        }
        return true;
    }

    private void closeAll() {
        for (StreamConsumer<byte[]> consumer : consumers) {
            try {
                consumer.close();
            } catch (Exception e) {
                out.event(id, "trouble", Map.of("error", "closing: " + e));
            }
        }
    }

    /** Right after an unload a broker may refuse. */
    private StreamConsumer<byte[]> subscribePatiently(String name) throws Exception {
        for (int attempt = 1; ; attempt++) {
            try {
                return subscribe(name);
            } catch (Exception e) {
                if (stopping || attempt == 10) {
                    throw e;
                }
                out.event(id, "trouble", Map.of("error", name + " subscribing: " + e));
                Thread.sleep(1_000);
            }
        }
    }

    private StreamConsumer<byte[]> subscribe(String name) throws Exception {
        StreamConsumerBuilder<byte[]> builder = clients.v5(spec.path("url").asText(), "consume-" + id)
                .newStreamConsumer(Schema.bytes()).topic(spec.path("topic").asText())
                .subscriptionName(spec.path("subscription").asText()).consumerName(name)
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST);
        if (spec.hasNonNull("privateKey")) {
            builder.encryptionPolicy(ConsumerEncryptionPolicy.builder().privateKeyProvider(
                    PemFileKeyProvider.builder().privateKey("e2e", Path.of(spec.path("privateKey").asText())).build()).build());
        }
        return builder.subscribe();
    }

    private void receive(String name, StreamConsumer<byte[]> consumer) {
        while (!stopping) {
            try {
                Messages<byte[]> messages = consumer.receiveMulti(500, Duration.ofMillis(50));
                if (messages == null || messages.count() == 0) {
                    got.flush();
                    continue;
                }
                report(name, messages);
                consumer.acknowledgeCumulative(messages.lastId());
            } catch (Exception e) {
                out.event(id, "trouble", Map.of("error", name + ": " + e));
            }
        }
        leave(name, consumer);
    }

    /**
     * Takes what is there once more and does not acknowledge it: the last cumulative acknowledgement may cover a message of
     * another segment that was on its way to the queue (seen in the client's code, 5.0.1). What comes again is known by its
     * position.
     */
    private void leave(String name, StreamConsumer<byte[]> consumer) {
        try {
            Messages<byte[]> rest = consumer.receiveMulti(500, Duration.ofMillis(100));
            if (rest != null) {
                report(name, rest);
            }
            got.flush();
        } catch (Exception e) {
            out.event(id, "trouble", Map.of("error", name + " at the end: " + e));
        }
    }

    private void report(String name, Messages<byte[]> messages) {
        for (Message<byte[]> message : messages) {
            got.add(record(name, message));
        }
        got.flush();
    }

    private String record(String name, Message<byte[]> message) {
        String text = new String(message.data(), 0, Math.min(message.data().length, 120), StandardCharsets.UTF_8);
        String[] head = text.split(" ", 4);
        if (head.length < 3) {
            return name + " " + position(message) + " " + message.replicatedFrom().orElse("-") + " foreign - 0";
        }
        if (!head[1].equals(message.key().orElse("-"))) {
            keyMismatches.incrementAndGet();
            out.event(id, "trouble", Map.of("error", "message " + head[0] + " of key " + head[1] + " came with key " + message.key()));
        }
        return name + " " + position(message) + " " + message.replicatedFrom().orElse("-") + " " + head[0] + " " + head[1] + " "
                + head[2];
    }

    private static String position(Message<byte[]> message) {
        return V5Interop.v4Message(message).map(m -> m.getMessageId().toString()).orElse("?");
    }

    @Override
    public void close() throws InterruptedException {
        synchronized (this) {
            stopping = true;
            if (threads.isEmpty()) { // still subscribing, which may take its time
                closeAll();
                return;
            }
        }
        over.await();
    }
}

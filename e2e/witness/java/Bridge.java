package io.geobridge.witness;

import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import org.apache.pulsar.client.api.v5.Message;
import org.apache.pulsar.client.api.v5.MessageId;
import org.apache.pulsar.client.api.v5.Producer;
import org.apache.pulsar.client.api.v5.PulsarClient;
import org.apache.pulsar.client.api.v5.StreamConsumer;
import org.apache.pulsar.client.api.v5.async.AsyncMessageBuilder;
import org.apache.pulsar.client.api.v5.config.SubscriptionInitialPosition;
import org.apache.pulsar.client.api.v5.schema.Schema;

/** The bridge that one would write in an afternoon: what geobridge is measured against, and what must fail its checks. */
public final class Bridge {
    /** Arguments: service URL and topic to read, service URL and topic to write, subscription. Runs until it is killed. */
    public static void main(String[] args) throws Exception {
        PulsarClient from = PulsarClient.builder().serviceUrl(args[0]).build();
        PulsarClient to = PulsarClient.builder().serviceUrl(args[2]).build();
        StreamConsumer<byte[]> consumer = from.newStreamConsumer(Schema.bytes()).topic(args[1]).subscriptionName(args[4])
                .subscriptionInitialPosition(SubscriptionInitialPosition.EARLIEST).subscribe();
        Producer<byte[]> producer = to.newProducer(Schema.bytes()).topic(args[3]).blockIfQueueFull(true).create();
        System.out.println("ready");
        Semaphore window = new Semaphore(20_000);
        CompletableFuture<?> receipts = CompletableFuture.completedFuture(null);
        MessageId last = null;
        for (long n = 1;; n++) {
            Message<byte[]> message = consumer.receive(Duration.ofMillis(50));
            if (last != null && (message == null || n % 500 == 0)) {
                MessageId upTo = last;
                receipts = receipts.thenRun(() -> consumer.acknowledgeCumulative(upTo));
            }
            if (message == null) {
                continue;
            }
            AsyncMessageBuilder<byte[]> copy = producer.async().newMessage().value(message.value()).properties(message.properties());
            message.key().ifPresent(copy::key);
            message.eventTime().ifPresent(copy::eventTime);
            window.acquire();
            CompletableFuture<MessageId> sent = copy.send();
            sent.thenRun(window::release);
            receipts = receipts.thenCombine(sent, (before, mine) -> null); // this one and all before it
            last = message.id();
        }
    }
}

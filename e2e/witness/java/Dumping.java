package io.geobridge.witness;

import com.fasterxml.jackson.databind.JsonNode;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.pulsar.client.api.RawMessage;
import org.apache.pulsar.client.api.RawReader;
import org.apache.pulsar.common.api.proto.CompressionType;
import org.apache.pulsar.common.api.proto.KeyValue;
import org.apache.pulsar.common.api.proto.MessageMetadata;
import org.apache.pulsar.common.api.proto.SingleMessageMetadata;
import org.apache.pulsar.common.compression.CompressionCodecProvider;
import org.apache.pulsar.common.protocol.Commands;
import org.apache.pulsar.common.util.Murmur3_32Hash;

/**
 * Reads the stored entries of one segment as they are, with the raw reader that the broker's own compactor uses, and opens
 * them with Pulsar's own decoders and hash, until it is stopped. Each entry is reported first and acknowledged then, so that
 * once the subscription's backlog is empty, all of them have been reported. What was not acknowledged when a connection was
 * lost is reported again.
 *
 * <p>Events: "ready"; "entry" for each.
 */
final class Dumping implements AutoCloseable, Witness.Task {
    private final Out out;
    private final long id;
    private final RawReader reader;
    private volatile boolean stopping;
    private final Thread self = Thread.currentThread();

    Dumping(Out out, Clients clients, long id, JsonNode spec) throws Exception {
        this.out = out;
        this.id = id;
        this.reader = RawReader.create(clients.classic(spec.path("url").asText()), spec.path("topic").asText(),
                spec.path("subscription").asText(), false, false).get();
    }

    @Override
    public void run() throws Exception {
        out.event(id, "ready", Map.of());
        try {
            read();
        } finally {
            reader.closeAsync().get(); // else it keeps the subscription from the next reader
        }
        out.event(id, "done", Map.of());
    }

    private void read() throws Exception {
        CompletableFuture<RawMessage> next = reader.readNextAsync();
        while (!stopping) {
            RawMessage message;
            try {
                message = next.get(100, TimeUnit.MILLISECONDS);
            } catch (TimeoutException e) {
                continue;
            }
            try (message) {
                out.event(id, "entry", describe(message));
                reader.acknowledgeCumulativeAsync(message.getMessageId(), Map.of()).exceptionally(lost -> {
                    out.event(id, "trouble", Map.of("error", String.valueOf(lost)));
                    return null;
                });
            }
            next = reader.readNextAsync();
        }
    }

    private static Map<String, Object> describe(RawMessage message) throws Exception {
        ByteBuf entry = message.getHeadersAndPayload();
        Commands.skipBrokerEntryMetadataIfExist(entry);
        MessageMetadata metadata = Commands.parseMessageMetadata(entry);
        Map<String, Object> event = fields(metadata);
        event.put("position", message.getMessageIdData().getLedgerId() + ":" + message.getMessageIdData().getEntryId());
        byte[] stored = new byte[entry.readableBytes()];
        entry.getBytes(entry.readerIndex(), stored);
        event.put("size", stored.length);
        event.put("digest", HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(stored), 0, 12));
        event.put("messages", metadata.getEncryptionKeysCount() == 0 ? open(metadata, entry) : sealed(metadata));
        return event;
    }

    private static Map<String, Object> fields(MessageMetadata metadata) {
        Map<String, Object> event = new HashMap<>();
        event.put("producer", metadata.getProducerName());
        event.put("sequence", metadata.getSequenceId());
        event.put("published", metadata.getPublishTime());
        event.put("replicatedFrom", metadata.hasReplicatedFrom() ? metadata.getReplicatedFrom() : "");
        event.put("key", metadata.hasPartitionKey() ? metadata.getPartitionKey() : null);
        event.put("batch", metadata.hasNumMessagesInBatch());
        event.put("count", metadata.hasNumMessagesInBatch() ? metadata.getNumMessagesInBatch() : 1);
        event.put("compression", metadata.hasCompression() ? metadata.getCompression().name() : "NONE");
        event.put("uncompressed", metadata.getUncompressedSize());
        event.put("hashMin", metadata.hasEntryHashMin() ? metadata.getEntryHashMin() : -1);
        event.put("hashMax", metadata.hasEntryHashMax() ? metadata.getEntryHashMax() : -1);
        event.put("encrypted", metadata.getEncryptionKeysCount() > 0);
        event.put("txn", metadata.hasTxnidLeastBits() || metadata.hasTxnidMostBits());
        Map<String, String> properties = new HashMap<>();
        for (KeyValue property : metadata.getPropertiesList()) {
            if (properties.put(property.getKey(), property.getValue()) != null) {
                event.put("doubled", property.getKey());
            }
        }
        event.put("properties", properties);
        return event;
    }

    /** Opens an entry into "key present?", key, high and low half of the key's hash and the message's id. */
    private static List<Map<String, Object>> open(MessageMetadata metadata, ByteBuf stored) throws Exception {
        ByteBuf plain = metadata.hasCompression() && metadata.getCompression() != CompressionType.NONE
                ? CompressionCodecProvider.getCompressionCodec(metadata.getCompression()).decode(stored, metadata.getUncompressedSize())
                : stored.retain();
        try {
            List<Map<String, Object>> messages = new ArrayList<>();
            if (!metadata.hasNumMessagesInBatch()) {
                messages.add(describe(metadata.hasPartitionKey() ? metadata.getPartitionKey() : null,
                        metadata.hasOrderingKey() ? metadata.getOrderingKey() : null, plain));
                return messages;
            }
            for (int i = 0; i < metadata.getNumMessagesInBatch(); i++) {
                SingleMessageMetadata single = new SingleMessageMetadata();
                ByteBuf value = Commands.deSerializeSingleMessageInBatch(plain, single, i, metadata.getNumMessagesInBatch());
                messages.add(describe(single.hasPartitionKey() ? single.getPartitionKey() : null,
                        single.hasOrderingKey() ? single.getOrderingKey() : null, value));
                value.release();
            }
            if (plain.isReadable()) {
                throw new IllegalStateException(plain.readableBytes() + " bytes after the last message of a batch");
            }
            return messages;
        } finally {
            plain.release();
        }
    }

    /** What can be said of the one message of an encrypted entry. */
    private static List<Map<String, Object>> sealed(MessageMetadata metadata) {
        if (metadata.hasNumMessagesInBatch()) {
            return List.of();
        }
        return List.of(describe(metadata.hasPartitionKey() ? metadata.getPartitionKey() : null,
                metadata.hasOrderingKey() ? metadata.getOrderingKey() : null, Unpooled.EMPTY_BUFFER));
    }

    private static Map<String, Object> describe(String key, byte[] orderingKey, ByteBuf value) {
        Map<String, Object> message = new HashMap<>();
        int raw = key == null ? 0 : Murmur3_32Hash.makeRawHash(key.getBytes(StandardCharsets.UTF_8));
        int bucket = orderingKey == null ? raw : Murmur3_32Hash.makeRawHash(orderingKey);
        message.put("key", key);
        message.put("segmentHash", raw >>> 16);
        message.put("bucketHash", bucket & 0xFFFF);
        byte[] head = new byte[Math.min(value.readableBytes(), 120)];
        value.getBytes(value.readerIndex(), head);
        message.put("id", new String(head, StandardCharsets.UTF_8).split(" ", 2)[0]);
        return message;
    }

    @Override
    public void close() throws InterruptedException {
        stopping = true;
        self.join();
    }
}

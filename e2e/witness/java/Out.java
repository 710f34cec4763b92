package io.geobridge.witness;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** The stream of events: whole lines, from any thread. */
final class Out {
    static final ObjectMapper JSON = new ObjectMapper();
    private final PrintStream stream;

    Out(PrintStream stream) {
        this.stream = new PrintStream(stream, false);
    }

    void event(long id, String kind, Map<String, ?> fields) {
        Map<String, Object> event = new HashMap<>(fields);
        event.put("id", id);
        event.put("ev", kind);
        try {
            byte[] line = JSON.writeValueAsBytes(event);
            synchronized (stream) {
                stream.write(line, 0, line.length);
                stream.write('\n');
                stream.flush();
            }
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    /** Gathers items of one kind into events, in the order in which they were added; a full batch goes out at once. */
    static final class Batch {
        private static final int FULL = 500;
        private final Out out;
        private final long id;
        private final String kind;
        private List<String> items = new ArrayList<>();

        Batch(Out out, long id, String kind) {
            this.out = out;
            this.id = id;
            this.kind = kind;
        }

        synchronized void add(String item) {
            items.add(item);
            if (items.size() >= FULL) {
                flush();
            }
        }

        synchronized void flush() {
            if (!items.isEmpty()) {
                out.event(id, kind, Map.of("m", items));
                items = new ArrayList<>();
            }
        }
    }
}

package io.geobridge.witness;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * An outside observer of what geobridge does: it produces, consumes and dumps with Pulsar's own Java client.
 *
 * <p>One command a line on standard input, a JSON object with "op" and "id"; one event a line on standard output, a JSON
 * object with "ev" and the "id" of the command that it answers. Long commands run in threads of their own until they are
 * done or a "stop" names their id. The program ends with its standard input.
 */
public final class Witness {
    private final Out out;
    private final Clients clients = new Clients();
    private final Map<Long, AutoCloseable> running = new ConcurrentHashMap<>();

    private Witness(Out out) {
        this.out = out;
    }

    public static void main(String[] args) throws Exception {
        Out out = new Out(System.out);
        System.setOut(System.err); // whatever logs, logs there
        Witness witness = new Witness(out);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            witness.handle(Out.JSON.readTree(line));
        }
        Runtime.getRuntime().halt(0); // the test has gone: no orderly farewell to brokers that may be gone too
    }

    private void handle(JsonNode command) {
        long id = command.path("id").asLong();
        Thread thread = new Thread(() -> {
            try {
                run(id, command);
            } catch (Throwable e) {
                e.printStackTrace();
                out.event(id, "error", Map.of("error", String.valueOf(e)));
            }
        }, command.path("op").asText() + "-" + id);
        thread.setDaemon(true);
        thread.start();
    }

    private void run(long id, JsonNode command) throws Exception {
        switch (command.path("op").asText()) {
            case "produce" -> start(id, new Producing(out, clients, id, command));
            case "consume" -> start(id, new Consuming(out, clients, id, command));
            case "dump" -> start(id, new Dumping(out, clients, id, command));
            case "stop" -> {
                AutoCloseable task = running.remove(command.path("target").asLong());
                if (task != null) {
                    task.close();
                }
                out.event(id, "stopped", Map.of());
            }
            default -> throw new IllegalArgumentException("unknown op in " + command);
        }
    }

    private <T extends AutoCloseable & Task> void start(long id, T task) throws Exception {
        running.put(id, task);
        task.run();
    }

    /** Work that runs until it is done or closed. */
    interface Task {
        void run() throws Exception;
    }
}

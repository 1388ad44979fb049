import java.util.HashMap;
import java.util.Map;

/** The name=value words that end a command line, and how the programs here end. */
final class Options {
    /** What a program does with its arguments; returns the exit code. */
    interface Program {
        int run(String[] args) throws Exception;
    }

    private final Map<String, String> values = new HashMap<>();

    Options(String[] args, int from) {
        for (int i = from; i < args.length; i++) {
            int equals = args[i].indexOf('=');
            if (equals < 1) {
                throw new IllegalArgumentException("not name=value: " + args[i]);
            }
            values.put(args[i].substring(0, equals), args[i].substring(equals + 1));
        }
    }

    String text(String name, String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    int number(String name, int otherwise) {
        return values.containsKey(name) ? Integer.parseInt(values.get(name)) : otherwise;
    }

    /** Runs and exits: 2 for bad arguments, 1 for an exception. The threads of a client outlive main, so it must exit. */
    static void main(String[] args, Program program) {
        int code = code(args, program);
        System.out.flush();
        System.exit(code);
    }

    /** Runs and returns the exit code. */
    static int code(String[] args, Program program) {
        try {
            return program.run(args);
        } catch (IllegalArgumentException e) {
            System.err.println(e.getMessage());
            return 2;
        } catch (Throwable e) {
            e.printStackTrace();
            return 1;
        }
    }
}

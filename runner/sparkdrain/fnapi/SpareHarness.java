import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Map;
import java.util.function.Function;
import java.util.logging.Logger;

/**
 * A JVM that has loaded Beam's classes, and waits for the job that it is to be the SDK harness of.
 *
 * <p>Java runs this file as it is. Its arguments are a list of classes, its folder while it gets
 * ready, and the folder's name when it is. From a pipe in the folder it reads the variables that a
 * harness has in its environment, and where the folder is now, up to an empty line. It ends when the
 * other end of the pipe closes. No code of the user's runs before it has the variables.
 *
 * <p>A byte in the pipe says that the harness is to end. Then the last record of its log, under a name
 * of its own, says that all DoFns are torn down: the harness waits for up to a second after that.
 */
public final class SpareHarness {
  private static final String MAIN = "org.apache.beam.fn.harness.FnHarness";
  private static final String PIPE = "pipe";
  private static final String FOLDER = "SPARKDRAIN_FOLDER";
  private static final long PATIENCE_MILLIS = 3000;
  private static final String TORN_DOWN = "sparkdrain.torn-down";
  private static final String LOGGING = "org.apache.beam.fn.harness.logging.BeamFnLoggingClient";
  private static final long LOOK_MILLIS = 5;

  private SpareHarness() {}

  public static void main(String[] arguments) throws Exception {
    ClassLoader loader = ClassLoader.getSystemClassLoader();
    Thread.currentThread().setContextClassLoader(loader);
    for (String name : Files.readAllLines(Path.of(arguments[0]))) {
      load(name, loader);
    }
    Path ready = Path.of(arguments[2]);
    Map<String, String> variables = new HashMap<>();
    InputStream caller;
    // Open for both, so that whoever finds the folder finds a reader, too.
    Path begun = Path.of(arguments[1]);
    try (RandomAccessFile pipe = new RandomAccessFile(begun.resolve(PIPE).toFile(), "rw")) {
      BufferedReader told =
          new BufferedReader(
              new InputStreamReader(new FileInputStream(pipe.getFD()), StandardCharsets.UTF_8));
      Files.move(begun, ready);
      for (String line = told.readLine(); !line.isEmpty(); line = told.readLine()) {
        int end = line.indexOf('=');
        variables.put(line.substring(0, end), line.substring(end + 1));
      }
      String folder = variables.get(FOLDER);
      // Has an end, as no other end to write is open here.
      caller = new FileInputStream(Path.of(folder).resolve(PIPE).toFile());
    }
    Thread harness = Thread.currentThread();
    Thread watch = new Thread(() -> endWith(caller, harness), "sparkdrain-caller");
    watch.setDaemon(true);
    watch.start();
    Function<String, String> variable = variables::get;
    Class.forName(MAIN, true, loader).getMethod("main", Function.class).invoke(null, variable);
  }

  private static void load(String name, ClassLoader loader) {
    try {
      Class.forName(name, true, loader);
    } catch (ClassNotFoundException | LinkageError error) {
      // The harness will say so, if it needs the class.
    }
  }

  private static void endWith(InputStream caller, Thread harness) {
    try {
      while (caller.read() >= 0) {
        Thread look = new Thread(() -> tellTornDown(harness), "sparkdrain-torn-down");
        look.setDaemon(true);
        look.start();
      }
    } catch (IOException error) {
      // The caller is gone, too.
    }
    Thread end = new Thread(() -> System.exit(1), "sparkdrain-end");
    end.setDaemon(true);
    end.start();
    try {
      end.join(PATIENCE_MILLIS);
    } catch (InterruptedException error) {
      // It ends now.
    }
    Runtime.getRuntime().halt(1);
  }

  private static void tellTornDown(Thread harness) {
    while (!isClosingLog(harness)) {
      if (!harness.isAlive()) {
        return;
      }
      try {
        Thread.sleep(LOOK_MILLIS);
      } catch (InterruptedException error) {
        return;
      }
    }
    Logger.getLogger(TORN_DOWN).severe("torn down");
  }

  /** Whether the harness closes its log, which is the last thing that it does. */
  private static boolean isClosingLog(Thread harness) {
    for (StackTraceElement frame : harness.getStackTrace()) {
      if (frame.getClassName().equals(LOGGING) && frame.getMethodName().equals("close")) {
        return true;
      }
    }
    return false;
  }
}

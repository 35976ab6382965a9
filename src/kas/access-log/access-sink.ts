import { KasError } from '../../lib/errors.ts'
import { FileSink, type Pipe, standardSink } from '../../lib/line-sinks.ts'
import type { LineSink } from '../../lib/line-writer.ts'
import type { Logger } from '../../lib/log.ts'

/** The used part of the process. */
export interface SinkProcess {
  readonly stdout: Pipe
  on(event: 'SIGHUP', listener: () => void): unknown
}

/**
 * Opens the target in `observability.access_log.output`; a file is opened again on SIGHUP.
 *
 * @param options.file - file of that setting, for errors
 * @throws KasError SETTINGS_INVALID
 */
export function openAccessSink(
  { log, process }: { readonly log: Logger; readonly process: SinkProcess },
  { output, file }: { readonly output: string; readonly file: string },
): { accessSink?: LineSink } {
  if (output === 'none') return {}
  if (output === 'stdout') return { accessSink: standardSink(process.stdout) }
  const onProblem = (error: Error) => log.error({ error, file: output }, 'The access log cannot be opened again')
  try {
    const accessSink = new FileSink(output, { now: () => performance.now(), onProblem })
    process.on('SIGHUP', () => accessSink.reopen())
    return { accessSink }
  } catch (cause) {
    const allowed = 'stdout, none, or the absolute path of a file that can be written'
    const problem = `observability.access_log.output: found "${output}", allowed: ${allowed}: ${(cause as Error).message}`
    throw new KasError({ code: 'SETTINGS_INVALID', file, problems: [problem] }, { cause })
  }
}

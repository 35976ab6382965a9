import { KasError } from '../../lib/errors.ts'
import { FileSink, type Pipe, standardSink } from '../../lib/line-sinks.ts'
import type { LineSink } from '../../lib/line-writer.ts'
import type { Logger } from '../../lib/log.ts'

/** What of the process is needed. */
export interface SinkProcess {
  readonly stdout: Pipe
  on(event: 'SIGHUP', listener: () => void): unknown
}

/**
 * Opens what `observability.access_log.output` names; a file is opened anew on SIGHUP.
 *
 * @param options.file - where that was read, for errors
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

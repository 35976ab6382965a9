import { createLogger, type Logger } from '../../src/lib/log.ts'

/** A logger whose lines a test can read. */
export function capturedLog(): { log: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = []
  const destination = { write: (line: string) => void lines.push(JSON.parse(line)) }
  return { log: createLogger({ level: 'debug', destination }), lines }
}

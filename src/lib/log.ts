import { pino } from 'pino'

export type { Logger } from 'pino'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

/**
 * One JSON object a line on stderr: `level` as a word, `time` ISO 8601 in ms, `msg`, `error` (wire-protocol 8.4).
 * Field names beside them: `mod_name`, `agent_id`, `project_id`, `commit_id`, `trace_id`, `grpc_method`,
 * `net_address`, `url_path`, `status_code`.
 */
export function createLogger(options: { level: LogLevel; destination?: { write(line: string): void } }) {
  return pino(
    {
      level: options.level,
      base: null,
      errorKey: 'error',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
    },
    options.destination ?? pino.destination({ dest: 2, sync: false }),
  )
}

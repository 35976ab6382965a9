import { getEnvironmentData, isMainThread, setEnvironmentData } from 'node:worker_threads'
import { pino } from 'pino'
import { BoundedLines } from './bounded-lines.ts'
import { backgroundClock } from './clock.ts'
import { KasError } from './errors.ts'
import { DescriptorSink, standardSink } from './line-sinks.ts'
import { LineWriter } from './line-writer.ts'
import type { LogFormat } from './log-format.ts'
import { textLine } from './log-text.ts'
import { escapedJson } from './printable.ts'
import { withoutNodeAdvice } from './tls-fault.ts'

export type { Logger } from 'pino'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error' | 'silent'

interface LoggerOptions {
  readonly level: LogLevel
  /** default: JSON; in a thread, the format of its program */
  readonly format?: LogFormat
  readonly destination?: { write(line: string): void }
}

/** key of the format in the data that threads get */
const formatKey = 'kas log format'

/**
 * Creates a logger that writes one JSON object a line on stderr: `level` as a word, `time` ISO 8601 in ms, `msg`,
 * `error` (doc/reference/tunnel-protocol.md 8.4). Other field names: `mod_name`, `agent_id`, `project_id`, `commit_id`,
 * `trace_id`, `grpc_method`, `net_address`, `url_path`, `status_code`.
 */
export function createLogger(options: LoggerOptions) {
  const { format = isMainThread ? 'json' : ((getEnvironmentData(formatKey) ?? 'json') as LogFormat) } = options
  if (isMainThread && options.format) setEnvironmentData(formatKey, format)
  const formatted = format === 'text' ? textLine : (line: string) => line
  return pino(
    {
      level: options.level,
      base: null,
      errorKey: 'error',
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      serializers: { error: (error: unknown) => describeError(error) },
      // a line may be read on a terminal, and much of its text comes from others
      hooks: { streamWrite: (line) => formatted(escapedJson(withoutNodeAdvice(line))) },
    },
    options.destination ?? stderrLines(formatted),
  )
}

/** Bound of the lines that wait while the reader of stderr has stopped. bytes */
const maxWaitingBytes = 4 * 1024 * 1024

/** lines of all loggers of the process */
let ownLines: { write(line: string): void } | undefined

/** Lines never wait for the reader of stderr. The lines of a crash are written before the process ends. */
function stderrLines(formatted: (line: string) => string): { write(line: string): void } {
  ownLines ??= createStderrLines(formatted)
  return ownLines
}

function createStderrLines(formatted: (line: string) => string): { write(line: string): void } {
  const source = new BoundedLines(maxWaitingBytes, (count) => {
    const line = { level: 'warn', time: new Date().toISOString(), count, msg: 'Lines of the log were lost' }
    return formatted(`${JSON.stringify(line)}\n`)
  })
  const sink = isMainThread ? standardSink(process.stderr) : new DescriptorSink(2) // not through the main thread
  const writer = new LineWriter({ source, sink, clock: backgroundClock })
  process.once('exit', () => writer.flushNow())
  return {
    write(line) {
      source.add(line)
      writer.wake()
    },
  }
}

/** An error in a log line. */
export interface ErrorFields {
  readonly type: string
  readonly message: string
  /** code of a KasError, of the system, or of a library */
  readonly code?: string
  /** data of a KasError's code */
  readonly data?: Record<string, unknown>
  /** only if a fault of the program is possible */
  readonly stack?: string
  readonly cause?: ErrorFields
}

/** Bound of nested causes that are logged. */
const maxCauses = 5

/** Errors that the network, the other side or a file causes in a correct program: `code` and message explain them. */
const operational: readonly RegExp[] = [
  /^E[A-Z0-9]+$/, // of the system: ECONNREFUSED, ENOENT
  /^EAI_/,
  /^UND_ERR_(ABORTED|CLOSED|DESTROYED|SOCKET|CONNECT_TIMEOUT|HEADERS_TIMEOUT|BODY_TIMEOUT)$/,
  /^HPE_/, // HTTP that cannot be parsed
  /^ERR_HTTP2_(SESSION|STREAM)_(ERROR|CANCEL)$/,
  /^ERR_(TLS|SSL)_/,
  /^(CERT|UNABLE_TO)_/,
  /SELF_SIGNED/,
]
/** names of DOMException, for signals */
const endings: ReadonlySet<string> = new Set(['AbortError', 'TimeoutError'])

/** Describes an error: a KasError by its code and data, an expected one by its code, any other also by its stack. */
function describeError(error: unknown, depth = 0): ErrorFields {
  if (!(error instanceof Error)) return { type: typeof error, message: textOf(error) }
  const { code, cause } = error as Error & { code?: unknown }
  return {
    type: error.name,
    message: messageOf(error),
    ...(typeof code === 'string' ? { code } : {}),
    ...(error instanceof KasError ? dataOf(error) : {}),
    ...(isExpected(error, code) ? {} : { stack: error.stack ?? '' }),
    ...(cause !== undefined && depth < maxCauses ? { cause: describeError(cause, depth + 1) } : {}),
  }
}

/** True for errors that need no stack. An INTERNAL with a cause needs none, because the cause has its own. */
function isExpected(error: Error, code: unknown): boolean {
  if (error instanceof KasError) return error.code !== 'INTERNAL' || error.cause !== undefined
  return endings.has(error.name) || (typeof code === 'string' && operational.some((form) => form.test(code)))
}

/** Returns the message. A failed dial of several addresses is an AggregateError without one. */
function messageOf(error: Error): string {
  if (error.message !== '' || !(error instanceof AggregateError)) return error.message
  return error.errors.map(textOf).join('; ')
}

function dataOf({ spec }: KasError): { data?: Record<string, unknown> } {
  const { code: _, ...data } = spec
  const entries = Object.entries(data).map(([name, value]) => [name, dataValue(value)])
  return entries.length > 0 ? { data: Object.fromEntries(entries) } : {}
}

/** Converts values for JSON, which has no 64-bit numbers. Bytes are of no use to a reader. */
function dataValue(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  return value instanceof Uint8Array ? `${value.length} bytes` : value
}

function textOf(thrown: unknown): string {
  if (thrown instanceof Error) return thrown.message
  if (typeof thrown !== 'object' || thrown === null) return String(thrown)
  const { message } = thrown as { message?: unknown }
  return typeof message === 'string' ? message : Object.prototype.toString.call(thrown)
}

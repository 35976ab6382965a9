import { Counter } from 'prom-client'
import type { Clock } from '../../lib/clock.ts'
import { withDeadline } from '../../lib/deadline.ts'
import { routedNetworkOf } from '../../lib/host-port.ts'
import { LimitedLog } from '../../lib/limited-log.ts'
import { type LineSink, LineWriter } from '../../lib/line-writer.ts'
import type { Logger } from '../../lib/log.ts'
import type { Registry } from '../../lib/metrics.ts'
import type { Service } from '../../lib/service.ts'
import { defaultLineRules, type LineClass, type LineRule, lineClasses } from '../config/access-log.ts'
import { type AccessLine, bounds, cut } from './access-line.ts'
import { ClassQueues } from './class-queues.ts'
import { CountedLines } from './counted-lines.ts'
import { lineRules, type RuledCall } from './line-rules.ts'
import { RecentLines } from './recent-lines.ts'
import { type Refused, RefusedStrangers } from './refused-strangers.ts'

export interface AccessLogComponents {
  readonly sink: LineSink
  /** since 1970; its timers do not keep the process running */
  readonly clock: Clock
  readonly register: Registry
  readonly log: Logger
}

export interface AccessLogOptions {
  /** name of this replica */
  readonly entry: string
  readonly rules?: readonly LineRule[] | undefined
  /** of an exec: its program, or the whole command */
  readonly execCommand: 'program' | 'full'
  /** true: the last lines are kept, for `kas log` */
  readonly keepsRecent: boolean
}

/** Fields of an event, beside those of every line. */
type EventFields = Omit<AccessLine, 'time' | 'event' | 'class' | 'entry'>

/** An event that is repeated for an agent or a user. */
interface SessionLine {
  readonly event: AccessLine['event']
  /** source whose turn it takes, as in `write` */
  readonly source: string
  /** fields of the last counted line */
  readonly fields: EventFields
}

/**
 * Lines of an agent or a user, from one network in a minute, of each event. All pods of an agent that start fit in it.
 */
const sessionsAtOnce = 20
/**
 * Bound of agents and users by networks that are counted in a minute, for each event. Each further one has its own
 * lines, if there is room.
 */
const maxCountedSessions = 20_000

/** Bound of the wait for a slow reader, at the end. ms */
const flushMs = 2000

/** Log of calls: caller, cluster, action and result, as a JSON line for each (doc/reference/access-log.md). */
export class AccessLog implements Service {
  readonly entry: string
  readonly showsCommand: boolean
  /** undefined: none are kept */
  readonly recent: RecentLines | undefined
  readonly #components: AccessLogComponents
  readonly #isLogged: (call: RuledCall) => boolean
  readonly #queues: ClassQueues
  readonly #writer: LineWriter
  readonly #strangers: RefusedStrangers
  readonly #sessions: CountedLines<SessionLine>
  /** time of the last line, since there may be many in a ms */
  #now = Number.NaN
  #nowText = ''

  constructor(components: AccessLogComponents, options: AccessLogOptions) {
    const { sink, clock, register, log } = components
    const { entry, rules = defaultLineRules, execCommand, keepsRecent } = options
    const metrics = createAccessLogMetrics(register)
    const failed = new LimitedLog({ clock, log }, 'The access log cannot be written')
    this.entry = entry
    this.showsCommand = execCommand === 'full'
    this.recent = keepsRecent ? new RecentLines() : undefined
    this.#components = components
    this.#isLogged = lineRules(rules)
    this.#queues = new ClassQueues(
      {
        now: () => clock.now(),
        onLine: (line, text) => this.recent?.add(line, text),
        onTaken: metrics.written,
        onLost: metrics.lost,
      },
      { entry },
    )
    this.#writer = new LineWriter({
      source: this.#queues,
      sink,
      clock,
      onFailed: ({ message }) => failed.warn(message),
    })
    this.#strangers = new RefusedStrangers({ clock, write: (...counted) => this.#writeRefused(...counted) })
    this.#sessions = new CountedLines(
      { clock, write: (...counted) => this.#writeSessions(...counted) },
      { atOnce: sessionsAtOnce, maxKeys: maxCountedSessions },
    )
  }

  async start(): Promise<void> {}

  /** Writes the remaining lines, if they are accepted in time. */
  async stop(): Promise<void> {
    this.#strangers.stop()
    this.#sessions.stop()
    const { clock, log } = this.#components
    const isWritten = await withDeadline({ ms: flushMs, clock }, (signal) => this.#writer.flush(signal))
    if (!isWritten) log.warn({ count: this.#queues.size }, 'Lines of the access log are not written: nobody takes them')
  }

  /** The process ends: writes the remaining lines as far as they are accepted at once. */
  flushNow(): void {
    this.#writer.flushNow()
  }

  isLogged(call: RuledCall): boolean {
    return this.#isLogged(call)
  }

  /**
   * @param source - source whose turn in the class it takes
   * @param make - makes the line; not called if it would be lost
   */
  write(name: LineClass, source: string, make: () => AccessLine): void {
    this.#queues.add(name, source, make)
    this.#writer.wake()
  }

  /** Writes a line that is about no call. */
  event(event: AccessLine['event'], name: LineClass, source: string, fields: EventFields): void {
    const { agent_id: agentId } = fields
    if (!this.#isLogged({ class: name, agentId: agentId === undefined ? undefined : BigInt(agentId) })) return
    if (name === 'session' && !this.hasOwnLine(event, source, fields)) return
    this.#writeEvent(event, name, source, fields)
  }

  /** True if the caller is to write a line of class `session`; false: it is one of many in a minute, and is counted. */
  hasOwnLine(event: AccessLine['event'], source: string, fields: EventFields): boolean {
    const network = routedNetworkOf(fields.address ?? '') // keeps a token thief apart
    return this.#sessions.add(`${source} ${network}`, { event, source, fields })
  }

  /**
   * Writes a line about a refused stranger.
   *
   * @param fields - called for the first refusal of an address only; the others are counted
   */
  stranger(refused: Refused, fields: () => EventFields): void {
    if (!this.#strangers.add(refused)) return
    const { event, reason, address } = refused
    this.event(event, 'refusal', `address ${address}`, { ...fields(), reason, address })
  }

  /** Time of a line that is made now. */
  time(): string {
    const now = this.#components.clock.now()
    if (now !== this.#now) {
      this.#now = now
      this.#nowText = new Date(now).toISOString()
    }
    return this.#nowText
  }

  #writeEvent(event: AccessLine['event'], name: LineClass, source: string, fields: EventFields): void {
    this.write(name, source, () => ({ time: this.time(), event, class: name, ...fields, entry: this.entry }))
  }

  #writeSessions({ event, source, fields }: SessionLine, count: number, since: number): void {
    const { ms: _, id: __, trace_id: ___, ...last } = fields // for a single line
    this.#writeEvent(event, 'session', source, { ...last, count, since: new Date(since).toISOString() })
  }

  #writeRefused({ event, reason, address }: Refused, count: number, since: number): void {
    this.event(event, 'refusal', `address ${address}`, { reason, address, count, since: new Date(since).toISOString() })
  }
}

/** The client's own name, from its header. */
export function userAgentField(userAgent: string | undefined): Pick<AccessLine, 'user_agent'> {
  return userAgent === undefined ? {} : { user_agent: cut(userAgent, bounds.userAgent) }
}

/**
 * Creates metrics that count in plain numbers and are read at each scrape: a labelled counter costs too much per line.
 */
export function createAccessLogMetrics(register: Registry) {
  const counted = (name: string, help: string) => {
    const counts = Object.fromEntries(lineClasses.map((each) => [each, 0])) as Record<LineClass, number>
    new Counter({
      name,
      help,
      labelNames: ['class'],
      registers: [register],
      collect() {
        this.reset()
        for (const each of lineClasses) this.inc({ class: each }, counts[each])
      },
    })
    return (each: LineClass) => {
      counts[each] += 1
    }
  }
  return {
    written: counted('kas_access_log_lines_total', 'Lines of the access log, by class'),
    lost: counted(
      'kas_access_log_lost_lines_total',
      'Lines of the access log that were lost, because those before them could not be written, by class',
    ),
  }
}

import { createHash } from 'node:crypto'
import { keyName } from '../../../../kubernetes/key.ts'
import { builtIn } from '../../../../kubernetes/kind.ts'
import { textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, objectPath } from '../../../../kubernetes/path.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { errorText } from '../../../../lib/errors.ts'
import type { Logger } from '../../../../lib/log.ts'
import { printableLines } from '../../../../lib/printable.ts'
import { Phase, type SourceState } from '../../../../proto/gen/gitops_states_pb.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { driftLine } from './drift-text.ts'
import { plannedLines } from './git-sync-status.ts'

/** Limit of objects with Events in a round: the state names more of them. */
const maxObjects = 20
/** Limit of an Event's message, from the API server. */
const maxMessageLength = 1024
const component = 'agentk-gitops'

/** Object that an Event is about. */
export interface EventTarget {
  readonly apiVersion: string
  readonly kind: string
  readonly namespace: string
  readonly name: string
  readonly uid: string
}

export interface SourceEvent {
  readonly type: 'Normal' | 'Warning'
  readonly reason: 'Applied' | 'Refused' | 'ApprovalNeeded' | 'ObjectFailed' | 'Drifted'
  /** object that the reason is about; empty: the whole source */
  readonly object: string
  readonly message: string
}

/** Returns the Events for a state; undefined: the round goes on. */
export function eventsOf(state: SourceState): readonly SourceEvent[] | undefined {
  const { phase, commit, wanted, counts, problem, plan, trouble } = state
  if (phase === Phase.REFUSED) return [warning('Refused', `${wanted}: ${problem}`)]
  if (phase === Phase.SYNCED) {
    const applied = `${commit}: ${counts?.objects ?? 0} objects`
    return [{ type: 'Normal', reason: 'Applied', object: '', message: applied }, ...driftEvents(state)]
  }
  if (phase !== Phase.APPROVAL && phase !== Phase.FAILING) return undefined
  const names = plannedLines(state).join(', ')
  const asks = plan === '' ? [] : [warning('ApprovalNeeded', `${wanted}: plan ${plan} deletes ${names}`)]
  const failing = trouble.flatMap(({ key, text }) => (key ? [warning('ObjectFailed', text, keyName(key))] : []))
  return [...asks, ...failing.slice(0, maxObjects)]
}

function driftEvents({ drifted }: SourceState): readonly SourceEvent[] {
  const named = drifted.filter(({ kind, key }) => kind === 'drifted' && key).slice(0, maxObjects)
  return named.map((one) => {
    const object = one.key ? keyName(one.key) : ''
    return { type: 'Warning', reason: 'Drifted', object, message: driftLine(one).slice(0, maxMessageLength) }
  })
}

function warning(reason: SourceEvent['reason'], message: string, object = ''): SourceEvent {
  const text = object === '' ? message : `${object}: ${message}`
  return { type: 'Warning', reason, object, message: printableLines(text).slice(0, maxMessageLength) }
}

export interface SourceEventsComponents {
  /** acts as agentk itself; its other requests go first */
  readonly lane: ApiLane
  readonly log: Logger
  readonly clock: Clock
}

interface Due {
  readonly about: EventTarget
  readonly events: readonly SourceEvent[]
}

/**
 * Events of GitSyncs, one for each object and reason. An Event has the current message, and is written again when that
 * changes. A failed write is ignored.
 */
export class SourceEvents {
  readonly #components: SourceEventsComponents
  /** by source: last written messages, by the Event's name */
  readonly #written = new Map<string, ReadonlyMap<string, string>>()
  readonly #due = new Map<string, Due>()
  #isRunning = false
  #isRefused = false

  constructor(components: SourceEventsComponents) {
    this.#components = components
  }

  /** Writes the Events of the newest state soon. */
  write(about: EventTarget, state: SourceState, signal: AbortSignal): void {
    const events = eventsOf(state)
    if (!events) return
    this.#due.set(about.name, { about, events })
    if (!this.#isRunning) void this.#run(signal)
  }

  /** Forgets the Events of a removed source, by the name of its object. They stay in the cluster for their time. */
  forget(name: string): void {
    this.#due.delete(name)
    this.#written.delete(name)
  }

  /** Number of sources whose last messages are in memory. */
  get size(): number {
    return this.#written.size
  }

  async #run(signal: AbortSignal): Promise<void> {
    this.#isRunning = true
    for (const [name, due] of this.#due) {
      this.#due.delete(name)
      const before = this.#written.get(name)
      const written = new Map<string, string>()
      this.#written.set(name, written)
      for (const event of due.events) {
        const eventName = nameOf(due.about, event)
        if (signal.aborted) break
        const isWritten = before?.get(eventName) === event.message
        if (isWritten || (await this.#writeOne(due.about, eventName, event, signal)))
          written.set(eventName, event.message)
      }
    }
    this.#isRunning = false
  }

  /** @returns true if the API server has taken it */
  async #writeOne(about: EventTarget, name: string, event: SourceEvent, signal: AbortSignal): Promise<boolean> {
    const { lane, log, clock } = this.#components
    const { namespace } = about
    const path = collectionPath(builtIn.events, namespace)
    try {
      let answer = await lane.json('POST', path, eventOf(about, name, event, clock.now()), signal)
      if (answer.status === 409) {
        const { type, message } = event
        const change = { type, message, involvedObject: { uid: about.uid }, lastTimestamp: timeOf(clock.now()) }
        const options = { contentType: 'application/merge-patch+json' }
        answer = await lane.json('PATCH', objectPath(builtIn.events, { namespace, name }), change, signal, options)
      }
      if (answer.status >= 300) throw new Error(textAt(answer.body, 'message') || `status ${answer.status}`)
      this.#isRefused = false
      return true
    } catch (error) {
      if (!signal.aborted && !this.#isRefused) log.warn({ reason: errorText(error) }, 'Events cannot be written')
      this.#isRefused = true
      return false
    }
  }
}

/** Returns the same name for the same object and reason, in each pod. */
function nameOf({ name }: EventTarget, { reason, object }: SourceEvent): string {
  const hash = createHash('sha256').update(`${reason} ${object}`).digest('hex').slice(0, 16)
  return `${name}.${hash}`
}

function eventOf(about: EventTarget, name: string, { type, reason, message }: SourceEvent, now: number): object {
  const at = timeOf(now)
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: about.namespace },
    involvedObject: about,
    type,
    reason,
    message,
    source: { component },
    reportingComponent: component,
    firstTimestamp: at,
    lastTimestamp: at,
    count: 1,
  }
}

/** Returns the time in seconds, as Kubernetes keeps it. */
function timeOf(now: number): string {
  return `${new Date(now).toISOString().slice(0, 19)}Z`
}

import { setImmediate } from 'node:timers/promises'
import type { Caller } from '../../../src/agentk/caller.ts'
import { Reviews } from '../../../src/agentk/modules/views/access/reviews.ts'
import { compareEvents } from '../../../src/agentk/modules/views/projection/event.ts'
import type {
  EventChange,
  FollowState,
  FollowStates,
  ReadonlyEvents,
} from '../../../src/agentk/modules/views/store/record.ts'
import { Problems } from '../../../src/agentk/modules/views/view/problems.ts'
import { type OpenView, ViewHost, type ViewHostOptions } from '../../../src/agentk/modules/views/view/view-host.ts'
import type { ResourceKind } from '../../../src/kubernetes/kind.ts'
import type { RoomUser } from '../../../src/lib/shared-room.ts'
import type { EventRow, Query } from '../../../src/proto/views-json.ts'
import { capturedLog } from '../captured-log.ts'
import { anyIdentity } from '../identities.ts'
import { ManualClock } from '../manual-clock.ts'
import { RecordsDouble } from './records-double.ts'
import { ReviewDouble } from './review-double.ts'
import { ViewClient } from './view-client.ts'

/** Returns the key of a caller: users count by their names, and all that act as the agent as one. */
export const viewerOf = (caller: Caller): RoomUser => ({ key: caller.as === 'user' ? caller.user.username : 'agent' })

export class StatesDouble implements FollowStates {
  readonly #states = new Map<ResourceKind, FollowState>()
  readonly #listeners = new Set<() => void>()

  all(): Iterable<readonly [ResourceKind, FollowState]> {
    return this.#states
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  set(kind: ResourceKind, state: Partial<FollowState>): void {
    this.#states.set(kind, { is: 'live', since: 1, why: '', refusedNamespaces: [], leftOut: [], ...state })
    for (const listener of this.#listeners) listener()
  }
}

export class EventsDouble implements ReadonlyEvents {
  readonly states = new StatesDouble()
  readonly #events = new Map<string, EventRow>()
  readonly #listeners = new Set<(change: EventChange) => void>()

  all(): Iterable<EventRow> {
    return [...this.#events.values()].sort(compareEvents)
  }

  onChange(listener: (change: EventChange) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  put(event: EventRow): void {
    const before = this.#events.get(event.u)
    this.#events.set(event.u, event)
    for (const listener of this.#listeners) listener({ before, after: event })
  }

  delete(uid: string): void {
    const before = this.#events.get(uid)
    this.#events.delete(uid)
    for (const listener of this.#listeners) listener({ before, after: undefined })
  }
}

/** Advances the clock by `ms`, then runs all work that follows at that moment. */
export async function settle(clock: ManualClock, ms: number): Promise<void> {
  clock.advance(ms)
  for (let i = 0; i < 8; i++) {
    await setImmediate()
    clock.advance(0)
  }
}

/** A host of views with its doubles, in which time stands still. */
export class ViewStage {
  readonly clock = new ManualClock()
  readonly records = new RecordsDouble()
  readonly events = new EventsDouble()
  readonly states = new StatesDouble()
  readonly problems = new Problems()
  readonly api = new ReviewDouble()
  readonly reviews = new Reviews({ api: this.api, clock: this.clock, identities: anyIdentity, log: capturedLog().log })
  options: ViewHostOptions = {}
  #host: ViewHost | undefined

  get host(): ViewHost {
    this.#host ??= new ViewHost(this, this.options)
    return this.#host
  }

  open(caller: Caller, query: Query, resumes = false): { client: ViewClient; view: OpenView } {
    const client = new ViewClient()
    const view = this.host.open(
      { caller, viewer: viewerOf(caller), query: Buffer.from(JSON.stringify(query)), resumes },
      client,
    )
    client.onTaken = (seq) => view.taken(seq)
    return { client, view }
  }

  /** Opens a view of a caller with another key. */
  openOf(viewer: RoomUser, caller: Caller, query: Query): { client: ViewClient; view: OpenView } {
    const client = new ViewClient()
    const view = this.host.open({ caller, viewer, query: Buffer.from(JSON.stringify(query)) }, client)
    client.onTaken = (seq) => view.taken(seq)
    return { client, view }
  }

  /** @param fresh - checks denials from a while ago again first */
  openFresh(caller: Caller, query: Query, fresh: boolean): { client: ViewClient } {
    const client = new ViewClient()
    const view = this.host.open(
      { caller, viewer: viewerOf(caller), query: Buffer.from(JSON.stringify(query)), fresh },
      client,
    )
    client.onTaken = (seq) => view.taken(seq)
    return { client }
  }

  /** Advances the clock by `ms`, then runs all work that follows at that moment. */
  pass(ms = 0): Promise<void> {
    return settle(this.clock, ms)
  }

  close(): void {
    this.#host?.close()
    this.reviews.close()
  }
}

export const agent: Caller = { as: 'agent' }
export function user(username: string): Caller {
  return { as: 'user', user: { username, groups: ['developers'], uid: '', extra: [] } }
}

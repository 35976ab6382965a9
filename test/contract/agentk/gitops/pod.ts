import { createHash } from 'node:crypto'
import type { ApiClient, JsonAnswer } from '../../../../src/agentk/cluster/api-client.ts'
import { BackgroundRequests } from '../../../../src/agentk/cluster/background-requests.ts'
import { type BuildComponents, buildCommit } from '../../../../src/agentk/modules/gitops/build/build-commit.ts'
import type { ReadJob } from '../../../../src/agentk/modules/gitops/build/manifests-thread.ts'
import { DriftWatches } from '../../../../src/agentk/modules/gitops/drift/drift-watches.ts'
import { ExplainTurns } from '../../../../src/agentk/modules/gitops/drift/explain-turns.ts'
import { type FollowedDrift, followDrift } from '../../../../src/agentk/modules/gitops/drift/follow-drift.ts'
import { SharedBytes } from '../../../../src/agentk/modules/gitops/files/kept-files.ts'
import { Inventory } from '../../../../src/agentk/modules/gitops/inventory/inventory.ts'
import { ObjectWaits, openWatches } from '../../../../src/agentk/modules/gitops/live/object-waits.ts'
import { SharedKinds } from '../../../../src/agentk/modules/gitops/live/shared-kinds.ts'
import { inventoryLabel } from '../../../../src/agentk/modules/gitops/manifests/annotations.ts'
import type { RepositoryFile } from '../../../../src/agentk/modules/gitops/manifests/manifest.ts'
import { readManifests } from '../../../../src/agentk/modules/gitops/manifests/read-manifests.ts'
import {
  type ReconcileComponents,
  type RoundInput,
  reconcile,
} from '../../../../src/agentk/modules/gitops/reconcile.ts'
import type { InventoryEntry, SourceClaims } from '../../../../src/agentk/modules/gitops/round.ts'
import { type SourceOptions, sourceOptions } from '../../../../src/agentk/modules/gitops/source-options.ts'
import { systemClock } from '../../../../src/lib/clock.ts'
import { RateLimit } from '../../../../src/lib/rate-limit.ts'
import type { SourceBlock } from '../../../../src/proto/gitops/schema.ts'
import { capturedLog } from '../../../support/captured-log.ts'
import { anyIdentity } from '../../../support/identities.ts'
import type { Ground } from './ground.ts'

export type Files = Readonly<Record<string, string>>

/**
 * A fault at one call of the pod, counted from 1. `unsent`: killed before the call. `unanswered`: killed after the API
 * server has taken the call. `held`: frozen; this call and later ones wait until it thaws.
 */
export interface Fault {
  readonly at: number
  readonly kind: 'unsent' | 'unanswered' | 'held'
}

export interface PodOptions {
  readonly agentId?: bigint
  readonly projectId: bigint
  readonly block?: SourceBlock
  readonly fault?: Fault
  /** Returns an answer in place of the API server; undefined: the API server answers. */
  readonly answer?: (method: string, path: string) => JsonAnswer | undefined
}

type Json = ApiClient['json']
type PodComponents = Partial<ReconcileComponents & Pick<BuildComponents, 'render'>>

/** claims of an agent without other sources */
export const noOthers: SourceClaims = {
  claim: () => undefined,
  isHandedOver: () => false,
  newOwner: () => undefined,
  unknownClaim: () => undefined,
  wanted: () => [],
  stands: () => 'no',
  hasRoom: () => true,
}

/** One process of agentk with one source. All its requests to the API server pass here. */
export class Pod {
  readonly options: SourceOptions
  readonly #ground: Ground
  readonly #agentId: bigint
  readonly #fault: Fault | undefined
  readonly #answer: NonNullable<PodOptions['answer']>
  readonly #lanes: BackgroundRequests
  readonly #kinds: SharedKinds
  readonly #killed = new AbortController()
  readonly #frozen = Promise.withResolvers<void>()
  readonly #thawed = Promise.withResolvers<void>()
  readonly #sent = new Set<Promise<unknown>>()
  #calls = 0
  #leads = true

  constructor(ground: Ground, { agentId = 42n, projectId, block = {}, fault, answer }: PodOptions) {
    const all = { default_namespace: 'shop', prune_propagation_policy: 'background', ...block } as const
    this.options = sourceOptions(all, { agentId, projectId, ownProject: 'platform/shop' })
    this.#ground = ground
    this.#agentId = agentId
    this.#fault = fault
    this.#answer = answer ?? (() => undefined)
    const client = { json: this.#json }
    // otherwise the tests would wait only for the rate limit
    const options = { callsPerSecond: 100_000 }
    this.#lanes = new BackgroundRequests({ client, clock: systemClock, holds: () => this.#leads }, options)
    const lane = this.#lanes.lane('control')
    this.#kinds = new SharedKinds({ lane, clock: systemClock, signal: this.#killed.signal })
  }

  /** Number of calls that may be in flight. */
  get width(): number {
    return this.#lanes.width
  }

  get isKilled(): boolean {
    return this.#killed.signal.aborted
  }

  /** Resolves when the pod is frozen; never if it makes fewer calls. */
  get frozen(): Promise<void> {
    return this.#frozen.promise
  }

  /** Sends the waiting calls. The pod no longer leads. */
  thaw(): void {
    this.#leads = false
    this.#thawed.resolve()
  }

  /** Resolves when the API server has answered all sent calls. */
  async landed(): Promise<void> {
    while (this.#sent.size > 0) await Promise.allSettled(this.#sent)
  }

  entries(): Promise<ReadonlyMap<string, InventoryEntry>> {
    return this.#inventory().load(this.#killed.signal)
  }

  /** Compares objects with the cluster: its `judge` is for a round. Nothing is watched. */
  followDrift(): FollowedDrift {
    const [clock, random] = [systemClock, Math.random]
    const shared = { watches: new DriftWatches({ clock, random }), turns: new ExplainTurns(clock) }
    const pace = new RateLimit(clock, { perSecond: 1, burst: 1 })
    const room = new SharedBytes(1, () => 1)
    const components = { ...shared, pace, kinds: this.#kinds, room, clock, random, log: capturedLog().log }
    const client = { json: this.#json, send: this.#ground.client.send.bind(this.#ground.client) }
    const [lane, ownLane] = [this.#lanes.lane('preview'), this.#lanes.lane('control')]
    const nothing = () => undefined
    const listeners = { requestRound: nothing, onChange: nothing, onSeen: nothing, onRead: nothing, onLeft: nothing }
    const access = { client, lane, ownLane, scanLane: this.#lanes.lane('scan') }
    return followDrift(components, access, listeners, this.options, this.#killed.signal)
  }

  /** Makes one round. @throws as `reconcile` */
  round(files: Files, input: Partial<RoundInput> = {}, { render, ...components }: PodComponents = {}) {
    const { id, accessAs } = this.options
    const client = { json: this.#json, send: this.#ground.client.send.bind(this.#ground.client) }
    const waiting = { client, clock: systemClock, random: Math.random, watches: openWatches() }
    const building = {
      kinds: this.#kinds,
      render: render ?? (async (all: readonly RepositoryFile[]) => ({ files: all, problems: [] })),
      read: async (job: ReadJob) => readManifests(job),
    }
    return reconcile(
      {
        build: (all, signal) => buildCommit(building, all, this.options, signal),
        api: {
          ownLane: this.#lanes.lane('control'),
          accountLane: this.#lanes.lane('apply', anyIdentity.accountHeaders(accessAs?.serviceAccount)),
          scanLane: this.#lanes.lane('scan'),
          waits: new ObjectWaits(waiting, { selector: `${inventoryLabel}=${id}` }),
          kinds: this.#kinds,
        },
        inventory: { own: this.#inventory(), of: () => undefined, clock: systemClock },
        claims: noOthers,
        clock: systemClock,
        ...components,
      },
      {
        commit: createHash('sha1').update(JSON.stringify(files)).digest('hex'),
        files: Object.entries(files).map(([path, text]) => ({ path, data: Buffer.from(text) })),
        leftOut: [],
        approved: '',
        useApproval: async () => undefined,
        isSuspended: false,
        judge: async () => ({ kind: 'write' }),
        isDrifted: () => false,
        mayHaveCallsInFlight: false,
        superseded: new AbortController().signal,
        onStep: () => undefined,
        ...input,
      },
      this.options,
      this.#killed.signal,
    )
  }

  /** Makes a round that must be done. @throws Error with any other result */
  async bring(files: Files, input: Partial<RoundInput> = {}, components: PodComponents = {}) {
    const result = await this.round(files, input, components)
    if (result.kind !== 'done') throw new Error(JSON.stringify(result))
    const ends = Object.fromEntries(result.ends.map(({ manifest, end }) => [manifest.key.name, end]))
    const kinds = Object.fromEntries(Object.entries(ends).map(([name, end]) => [name, end.kind]))
    return { ...result, all: result.ends, ends, kinds }
  }

  #inventory(): Inventory {
    const { id } = this.options
    return new Inventory(this.#lanes.lane('control'), { namespace: 'gitops', agentId: this.#agentId, id })
  }

  /** Sends requests without a signal: a process that is killed does not take its requests back. */
  readonly #json: Json = async (method, path, body, signal, options) => {
    this.#killed.signal.throwIfAborted()
    signal?.throwIfAborted()
    const call = ++this.#calls
    const { at = 0, kind } = this.#fault ?? {}
    if (kind === 'unsent' && call === at) throw this.#kill()
    if (kind === 'held' && call >= at) {
      this.#frozen.resolve()
      await this.#thawed.promise
    }
    const answered = this.#answer(method, path)
    if (answered) return answered
    const sending = this.#ground.client.json(method, path, body, undefined, options)
    this.#sent.add(sending)
    try {
      const answer = await sending
      if (kind === 'unanswered' && call === at) throw this.#kill()
      this.#killed.signal.throwIfAborted()
      return answer
    } finally {
      this.#sent.delete(sending)
    }
  }

  #kill(): Error {
    const killed = new Error('killed')
    this.#killed.abort(killed)
    return killed
  }
}

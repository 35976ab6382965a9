import { textAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { serverVersionPath } from '../../../cluster/api-client.ts'
import type { ApiLane, BackgroundRequests } from '../../../cluster/background-requests.ts'
import type { AgentkHost } from '../../../module.ts'
import { buildCommit } from '../build/build-commit.ts'
import type { ManifestsThread } from '../build/manifests-thread.ts'
import type { RoundsFirst } from '../build/rounds-first.ts'
import {
  type DriftListeners,
  type FollowDriftComponents,
  type FollowedDrift,
  followDrift,
} from '../drift/follow-drift.ts'
import type { SharedBytes } from '../files/kept-files.ts'
import {
  type FollowedHealth,
  type FollowHealthComponents,
  followHealth,
  type HealthAccess,
} from '../health/follow-health.ts'
import { Inventory, storedSources } from '../inventory/inventory.ts'
import { type StoredObjects, storedObjectsOf } from '../inventory/stored-objects.ts'
import { type AbsentObject, absentCame } from '../live/absent-objects.ts'
import { readOnlyLane } from '../live/dry-lanes.ts'
import { ObjectWaits, type ObjectWaitsComponents } from '../live/object-waits.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import { inventoryLabel } from '../manifests/annotations.ts'
import type { PreviewAccess } from '../preview/previewed-source.ts'
import {
  forgetSource,
  type ReconcileComponents,
  type RemovalInput,
  type RoundInput,
  reconcile,
  reconcileRemoval,
} from '../reconcile.ts'
import type { Renderer } from '../render/renderer.ts'
import type { Outcome, RoundDone } from '../round.ts'
import type { SourceOptions } from '../source-options.ts'
import type { GitSyncs } from '../state/git-syncs.ts'
import type { SourceRegistry } from './source-registry.ts'

/** Components that the rounds of all sources share while this pod leads. */
export interface SourceRoundsComponents {
  readonly api: AgentkHost['api']
  readonly identities: Pick<AgentkHost['identities'], 'accountHeaders'>
  readonly lanes: BackgroundRequests
  /** acts as agentk itself */
  readonly ownLane: ApiLane
  readonly kinds: SharedKinds
  readonly registry: SourceRegistry
  readonly watches: ObjectWaitsComponents['watches']
  readonly renderer: Pick<Renderer, 'render'>
  readonly manifests: Pick<ManifestsThread, 'read'>
  /** budget of the objects that rounds keep as JSON */
  readonly objects: SharedBytes
  /** for previews, which make way for rounds */
  readonly previews: PreviewBuildComponents
  readonly drift: FollowDriftComponents
  readonly health: FollowHealthComponents
  /** objects that report sources in the cluster */
  readonly syncs: Pick<GitSyncs, 'remove'>
  readonly clock: Clock
  readonly random: () => number
}

export interface PreviewBuildComponents {
  readonly work: Pick<RoundsFirst, 'preview'>
  readonly renderer: Pick<Renderer, 'render'>
  readonly manifests: Pick<ManifestsThread, 'read'>
  /** limit of the objects of one preview */
  readonly maxBytes: number
}

/** Preview with its bounds. */
export interface PreviewUser {
  /** previews of different users take turns */
  readonly user: string
  /** of all its requests: name, value, name, value */
  readonly headers: readonly string[]
  /** true if so many bytes of objects have room */
  readonly hasRoom: (bytes: number) => boolean
}

export interface SourceRoundsOptions {
  readonly agentId: bigint
  /** namespace of agentk, with its inventories */
  readonly namespace: string
}

/** Means with which a commit is built. */
interface BuildResources extends Pick<SourceRoundsComponents, 'renderer' | 'manifests' | 'ownLane'> {
  /** limit of its objects */
  readonly maxBytes: number
  readonly hasRoom: (bytes: number) => boolean
}

/** Makes the rounds of all sources, and reads their inventories. */
export class SourceRounds {
  readonly #components: SourceRoundsComponents
  readonly #options: SourceRoundsOptions

  constructor(components: SourceRoundsComponents, options: SourceRoundsOptions) {
    this.#components = components
    this.#options = options
  }

  /** @throws KasError IDENTITY_REFUSED: agentk may not act as the source's account */
  accountHeaders(serviceAccount: NonNullable<SourceOptions['accessAs']>['serviceAccount'] | undefined) {
    return this.#components.identities.accountHeaders(serviceAccount)
  }

  /**
   * Runs one round of a source that is followed.
   *
   * @param source - its identity in the registry. @throws as `reconcile`; KasError IDENTITY_REFUSED
   */
  async run(source: object, input: RoundInput, options: SourceOptions, signal: AbortSignal): Promise<Outcome> {
    const parts = { ...this.#partsOf(source, options), build: this.#buildOf(source, options) }
    try {
      return await reconcile(parts, input, options, signal)
    } finally {
      this.#components.objects.release(source)
    }
  }

  /** Returns the access of a preview of a source. @param source - its identity in the registry. @throws KasError IDENTITY_REFUSED */
  preview(source: object, options: SourceOptions, { user, headers, hasRoom }: PreviewUser): PreviewAccess {
    const { lanes, kinds, registry, clock, previews } = this.#components
    const account = this.accountHeaders(options.accessAs?.serviceAccount)
    const lane = readOnlyLane(lanes.lane('preview', [...account, ...headers]))
    const ownLane = readOnlyLane(lanes.lane('preview', headers))
    const inventoryOf = (id: string) => new Inventory(ownLane, { ...this.#options, id })
    const { renderer, manifests, maxBytes } = previews
    const build = this.#buildWith({ renderer, manifests, ownLane, maxBytes, hasRoom }, options)
    const commitNow = () => registry.get(source)?.claim?.commit ?? ''
    const claimedCommit = commitNow()
    return {
      lane,
      ownLane,
      inventory: {
        own: inventoryOf(options.id),
        of: (other) => (registry.isBeside(source, other) ? undefined : inventoryOf(other)),
        lane,
        clock,
      },
      kinds,
      claims: registry.claims(source),
      claimedCommit,
      siblings: (key) => registry.siblings(source, key),
      interruption: () =>
        commitNow() === claimedCommit ? undefined : 'agentk began to apply another commit meanwhile: ask again',
      build: (files, signal) => previews.work.preview(user, signal, (building) => build(files, building)),
    }
  }

  /** Follows the drift of a source until the signal aborts. @throws KasError IDENTITY_REFUSED */
  followDrift(options: SourceOptions, listeners: DriftListeners, signal: AbortSignal): FollowedDrift {
    const { lanes, ownLane, drift } = this.#components
    const headers = this.accountHeaders(options.accessAs?.serviceAccount)
    const access = { ...this.#accessOf(options), lane: lanes.lane('preview', headers), ownLane }
    return followDrift(drift, access, listeners, options, signal)
  }

  /** Follows the health of a source's objects until the signal aborts. @throws KasError IDENTITY_REFUSED */
  followHealth(options: SourceOptions, onChange: () => void, signal: AbortSignal): FollowedHealth {
    return followHealth(this.#components.health, this.#accessOf(options), onChange, options, signal)
  }

  /** Returns a client that acts as the source's account. All other requests go first. */
  #accessOf({ accessAs }: SourceOptions): HealthAccess {
    const { api, lanes } = this.#components
    const headers = this.accountHeaders(accessAs?.serviceAccount)
    const send: typeof api.send = (request, handler) =>
      api.send({ ...request, headers: [...headers, ...request.headers] }, handler)
    const scanLane = lanes.lane('scan', headers)
    return { client: { json: scanLane.json, send }, scanLane }
  }

  /** Decides on all objects of a source that has left the configuration. @throws as `follow` */
  async remove(input: RemovalInput, options: SourceOptions, signal: AbortSignal): Promise<RoundDone> {
    return await reconcileRemoval(this.#removalParts(options), input, options, signal)
  }

  /** Releases all objects of a source that has left the configuration. @throws as `follow` */
  async forget(options: SourceOptions, signal: AbortSignal): Promise<void> {
    await forgetSource(this.#removalParts(options), signal)
  }

  /** Returns the sources with an inventory of this agent. @param onUnreadable - called for an unreadable inventory */
  stored(onUnreadable: (name: string, error: unknown) => void, signal: AbortSignal): Promise<SourceOptions[]> {
    return storedSources(this.#components.ownLane, this.#options, onUnreadable, signal)
  }

  /** The objects of a source of its last good commit, as its inventory has them. @throws as `storedObjectsOf` */
  storedObjects(of: Parameters<typeof storedObjectsOf>[1], signal: AbortSignal): Promise<StoredObjects | undefined> {
    return storedObjectsOf({ lane: this.#components.ownLane, ...this.#options }, of, signal)
  }

  /** Calls `absentCame` as agentk and as the source's account. */
  absentCame(
    absent: readonly AbsentObject[],
    known: Set<string>,
    { accessAs }: SourceOptions,
    signal: AbortSignal,
  ): Promise<boolean> {
    const { lanes, clock } = this.#components
    const headers = this.accountHeaders(accessAs?.serviceAccount)
    const both = [[], headers].map((one) => lanes.lane('scan', one))
    return absentCame({ lanes: both, clock }, absent, known, signal)
  }

  /** Returns components without claims, since the registry does not know the source. */
  #removalParts(options: SourceOptions) {
    const forget = (signal: AbortSignal) => this.#components.syncs.remove(options.id, signal)
    return { ...this.#partsOf({}, options), forget }
  }

  #partsOf(source: object, options: SourceOptions): Omit<ReconcileComponents, 'build'> {
    const { api, lanes, ownLane, kinds, registry, watches, clock, random } = this.#components
    const { id, accessAs } = options
    const headers = this.accountHeaders(accessAs?.serviceAccount)
    const accountLane = lanes.lane('apply', headers)
    const send: typeof api.send = (request, handler) =>
      api.send({ ...request, headers: [...headers, ...request.headers] }, handler)
    const waiting = { client: { json: accountLane.json, send }, clock, random, watches }
    const inventoryOf = (of: string) => new Inventory(ownLane, { ...this.#options, id: of })
    return {
      api: {
        ownLane,
        accountLane,
        scanLane: lanes.lane('scan'),
        waits: new ObjectWaits(waiting, { selector: `${inventoryLabel}=${id}` }),
        kinds,
      },
      inventory: {
        own: inventoryOf(id),
        of: (other) => (registry.isBeside(source, other) ? undefined : inventoryOf(other)),
        clock,
      },
      claims: registry.claims(source),
      clock,
    }
  }

  /** Returns the function that builds a commit's files. @param source - owner of the memory that its manifests take */
  #buildOf(source: object, options: SourceOptions): ReconcileComponents['build'] {
    const { ownLane, renderer, manifests, objects } = this.#components
    const hasRoom = (bytes: number) => objects.set(source, bytes)
    return this.#buildWith({ renderer, manifests, ownLane, maxBytes: objects.maxBytes, hasRoom }, options)
  }

  #buildWith(
    { renderer, manifests, ownLane, maxBytes, hasRoom }: BuildResources,
    options: SourceOptions,
  ): ReconcileComponents['build'] {
    const components: Parameters<typeof buildCommit>[0] = {
      kinds: this.#components.kinds,
      render: async (files, { apiVersions }, signal) => {
        const version = options.helm ? await serverVersion(ownLane, signal) : ''
        return renderer.render(files, options, { version, apiVersions }, signal)
      },
      read: (job, signal) => {
        return manifests.read(options.project, { ...job, maxBytes }, signal, hasRoom)
      },
    }
    return (files, signal) => buildCommit(components, files, options, signal)
  }
}

/** Returns the version of the API server: `v1.35.4`. @throws KasError UNREACHABLE */
async function serverVersion(lane: ApiLane, signal: AbortSignal): Promise<string> {
  const { status, body } = await lane.json('GET', serverVersionPath, undefined, signal)
  const version = textAt(body, 'gitVersion')
  if (status === 200 && version !== '') return version
  throw new KasError({ code: 'UNREACHABLE', detail: `the API server answered ${status} for /version` })
}

import { textAt } from '../../../../kubernetes/object.ts'
import type { Clock } from '../../../../lib/clock.ts'
import { KasError } from '../../../../lib/errors.ts'
import { serverVersionPath } from '../../../cluster/api-client.ts'
import type { ApiLane, ApiLanes } from '../../../cluster/api-lanes.ts'
import type { AgentkHost } from '../../../module.ts'
import { buildCommit } from '../build/build-commit.ts'
import type { ManifestsThread } from '../build/manifests-thread.ts'
import type { SharedBytes } from '../files/kept-files.ts'
import { Inventory } from '../inventory/inventory.ts'
import { ObjectWaits, type ObjectWaitsComponents } from '../live/object-waits.ts'
import type { SharedKinds } from '../live/shared-kinds.ts'
import { inventoryLabel } from '../manifests/annotations.ts'
import type { ReconcileComponents } from '../reconcile.ts'
import type { Renderer } from '../render/renderer.ts'
import type { SourceOptions } from '../source-options.ts'
import type { SourceRegistry } from './source-registry.ts'

/** What rounds of all sources share while this pod leads. */
export interface RoundsShared {
  readonly api: AgentkHost['api']
  readonly identities: Pick<AgentkHost['identities'], 'accountHeaders'>
  readonly lanes: ApiLanes
  /** of agentk itself */
  readonly ownLane: ApiLane
  readonly kinds: SharedKinds
  readonly registry: SourceRegistry
  readonly watches: ObjectWaitsComponents['watches']
  readonly renderer: Pick<Renderer, 'render'>
  readonly manifests: Pick<ManifestsThread, 'read'>
  /** of objects that rounds hold as JSON */
  readonly objects: SharedBytes
  readonly clock: Clock
  readonly random: () => number
}

export interface RoundsOptions {
  readonly agentId: bigint
  /** of agentk: its inventories are there */
  readonly namespace: string
}

/**
 * The parts that a round of one source needs.
 *
 * @param source - as the registry knows it; one that it does not know has no claims
 * @throws KasError IDENTITY_REFUSED: agentk may not act as the source's account
 */
export function roundComponents(
  shared: RoundsShared,
  { agentId, namespace }: RoundsOptions,
  options: SourceOptions,
  source: object,
): Omit<ReconcileComponents, 'build'> {
  const { api, identities, lanes, ownLane, kinds, registry, watches, clock, random } = shared
  const { id, accessAs } = options
  const headers = identities.accountHeaders(accessAs?.serviceAccount)
  const accountLane = lanes.lane('apply', headers)
  const send: typeof api.send = (request, handler) =>
    api.send({ ...request, headers: [...headers, ...request.headers] }, handler)
  const waiting = { client: { json: accountLane.json, send }, clock, random, watches }
  const inventoryOf = (of: string) => new Inventory(ownLane, { namespace, agentId, id: of })
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
    },
    claims: registry.claims(source),
    clock,
  }
}

/** What makes manifests of a commit's files. @param source - what it holds counts as this one's */
export function roundBuild(
  { ownLane, kinds, renderer, manifests, objects }: RoundsShared,
  options: SourceOptions,
  source: object,
): ReconcileComponents['build'] {
  const components: Parameters<typeof buildCommit>[0] = {
    kinds,
    render: async (files, { apiVersions }, signal) => {
      const version = options.helm ? await serverVersion(ownLane, signal) : ''
      return renderer.render(files, options, { version, apiVersions }, signal)
    },
    read: (job, signal) => {
      const limited = { ...job, maxBytes: objects.maxBytes }
      return manifests.read(options.project, limited, signal, (bytes) => objects.set(source, bytes))
    },
  }
  return (files, signal) => buildCommit(components, files, options, signal)
}

/** `v1.35.4` */
async function serverVersion(lane: ApiLane, signal: AbortSignal): Promise<string> {
  const { status, body } = await lane.json('GET', serverVersionPath, undefined, signal)
  const version = textAt(body, 'gitVersion')
  if (status === 200 && version !== '') return version
  throw new KasError({ code: 'UNREACHABLE', detail: `the API server answered ${status} for /version` })
}

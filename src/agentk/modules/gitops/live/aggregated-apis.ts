import { isBuiltInGroup } from '../../../../kubernetes/built-in-groups.ts'
import { conditionStatus } from '../../../../kubernetes/conditions.ts'
import { apiVersionOf, builtIn } from '../../../../kubernetes/kind.ts'
import { at, type KubernetesObject, listAt, nameOf, textAt } from '../../../../kubernetes/object.ts'
import { collectionPath, withQuery } from '../../../../kubernetes/path.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { ObjectList } from '../../../cluster/object-list.ts'
import { maxEventBytes } from '../../../cluster/watch-request.ts'
import type { ClusterKind } from './cluster-kinds.ts'

/** APIServices in a page: some 1 KiB each, and the certificates of other servers */
const pageSize = 500
/** limit for one page, with its wait for a turn. ms */
const pageTimeoutMs = 120_000

interface ApiService {
  readonly name: string
  /** another server answers for the API */
  readonly isAggregated: boolean
}

interface ApiServices {
  /** by `apiVersion` */
  readonly services: ReadonlyMap<string, ApiService>
  /** reason for which they cannot be listed; empty: they were */
  readonly refused: string
}

/**
 * Knows for which APIs another server answers, by their APIServices. These are read once, when a caller first asks.
 * Kubernetes' own groups and the kinds of CustomResourceDefinitions are known without them.
 */
export class AggregatedApis {
  readonly #lanes: readonly ApiLane[]
  #listed: Promise<ApiServices> | undefined
  /** by version and name of the definition: at most the kinds of one commit */
  readonly #custom = new Map<string, Promise<boolean>>()

  /** @param lanes - each is asked where the one before may not read */
  constructor(lanes: readonly ApiLane[]) {
    this.#lanes = lanes
  }

  /**
   * Returns the reason for which a dry run of this kind may be stored, for people. Another server may not know `dryRun`.
   * An unknown API counts as another server's.
   *
   * @returns undefined: the API server itself answers. @throws the connection's error, or the signal's reason
   */
  async dryRunRisk(
    kind: Pick<ClusterKind, 'group' | 'version' | 'plural'>,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { services, refused } = await this.#apiServices(signal)
    const api = apiVersionOf(kind)
    const known = services.get(api)
    if (known && !known.isAggregated) return undefined
    if (known) return `another server answers for ${api} (APIService ${known.name}), and may store a dry run`
    if (isBuiltInGroup(kind.group) || (await this.#isCustom(kind, signal))) return undefined
    const unknown = refused === '' ? 'the cluster has no APIService of it' : refused
    return `another server may answer for ${api}, and store a dry run: ${unknown}`
  }

  /** Lists the APIServices. A failed list is not kept. */
  #apiServices(signal: AbortSignal): Promise<ApiServices> {
    this.#listed ??= this.#readServices(signal).catch((error: unknown) => {
      this.#listed = undefined
      throw error
    })
    return this.#listed
  }

  async #readServices(signal: AbortSignal): Promise<ApiServices> {
    let refused = ''
    for (const lane of this.#lanes) {
      const found = await listServices(lane, signal)
      if ('services' in found) return { ...found, refused: '' }
      refused ||= refusedText(found.status)
    }
    return { services: new Map(), refused }
  }

  #isCustom({ group, version, plural }: Pick<ClusterKind, 'group' | 'version' | 'plural'>, signal: AbortSignal) {
    const name = `${plural}.${group}`
    const key = `${version} ${name}`
    const reading = this.#custom.get(key) ?? this.#readDefinition(name, version, signal)
    this.#custom.set(key, reading)
    return reading
  }

  /** True if a CustomResourceDefinition that can be read serves the version. */
  async #readDefinition(name: string, version: string, signal: AbortSignal): Promise<boolean> {
    // a list, since the role of the chart has no `get`
    const path = collectionPath(builtIn.customResourceDefinitions)
    const one = withQuery(path, { fieldSelector: `metadata.name=${name}`, limit: 1 })
    for (const lane of this.#lanes) {
      const { status, body } = await lane.json('GET', one, undefined, signal, { maxBytes: maxEventBytes })
      if (status !== 200) continue
      return listAt(body, 'items').some((definition) => nameOf(definition) === name && serves(definition, version))
    }
    return false
  }
}

async function listServices(
  lane: ApiLane,
  signal: AbortSignal,
): Promise<Pick<ApiServices, 'services'> | { readonly status: number }> {
  const path = collectionPath(builtIn.apiServices)
  const list = new ObjectList(lane, { path, accept: undefined, pageSize, timeoutMs: pageTimeoutMs })
  const services = new Map<string, ApiService>()
  for (;;) {
    const page = await list.page(signal)
    if (!('items' in page)) return { status: page.status }
    for (const item of page.items as readonly KubernetesObject[]) {
      const [group, version] = [textAt(item, 'spec.group'), textAt(item, 'spec.version')]
      const isAggregated = (at(item, 'spec.service') ?? null) !== null
      services.set(apiVersionOf({ group, version }), { name: nameOf(item), isAggregated })
    }
    if (page.isLast) return { services }
  }
}

function refusedText(status: number): string {
  if (status === 0) return 'one of the APIServices is too large to be read'
  if (status !== 401 && status !== 403) return `the API server answered ${status} for the list of APIServices`
  return 'agentk may not list APIServices, which rbac.gitops of its chart allows'
}

function serves(definition: KubernetesObject, version: string): boolean {
  const isServed = listAt(definition, 'spec.versions').some((one) => one.name === version && one.served === true)
  return isServed && conditionStatus(definition, 'Established') === 'True'
}

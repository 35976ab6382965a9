import type { GroupVersion } from '../../../../kubernetes/discovery.ts'
import type { ObjectKey } from '../../../../kubernetes/key.ts'
import { apiVersionOf, kindKey } from '../../../../kubernetes/kind.ts'
import type { ApiLane } from '../../../cluster/background-requests.ts'
import { servedVersions } from '../../../cluster/discovery.ts'

/** A kind in one version that the API server serves. */
export interface ClusterKind {
  readonly group: string
  readonly version: string
  readonly kind: string
  readonly plural: string
  readonly isNamespaced: boolean
  /** its objects can be applied and deleted by name */
  readonly isWritable: boolean
  readonly isListable: boolean
}

/** Kinds that the API server served at the last read. */
export class ClusterKinds {
  /** by `kindKey`: preferred version first */
  readonly #kinds = new Map<string, ClusterKind[]>()
  readonly #stale = new Set<string>()

  constructor(versions: readonly GroupVersion[]) {
    for (const { group, version, isStale, resources } of versions) {
      if (isStale) this.#stale.add(group)
      for (const { kind, plural, isNamespaced, verbs } of resources) {
        if (kind === '' || plural === '' || plural.includes('/')) continue
        const isWritable = ['get', 'patch', 'delete'].every((verb) => verbs.includes(verb))
        const key = kindKey(group, kind)
        const known = this.#kinds.get(key)
        const found = { group, version, kind, plural, isNamespaced, isWritable, isListable: verbs.includes('list') }
        if (known) known.push(found)
        else this.#kinds.set(key, [found])
      }
    }
  }

  /** @throws KasError UNREACHABLE, or the connection's error */
  static async read(lane: ApiLane, signal: AbortSignal): Promise<ClusterKinds> {
    return new ClusterKinds(await servedVersions(lane, signal))
  }

  /** @param version - absent: the preferred one. @returns undefined: it is not served now */
  find({ group, kind }: Pick<ObjectKey, 'group' | 'kind'>, version?: string): ClusterKind | undefined {
    const all = this.#kinds.get(kindKey(group, kind))
    return version === undefined ? all?.[0] : all?.find((one) => one.version === version)
  }

  /** Listable kinds, each in its preferred version. */
  get listable(): readonly ClusterKind[] {
    return [...this.#kinds.values()].flatMap(([kind]) => (kind?.isListable ? [kind] : []))
  }

  /** Scopes by `kindKey`: true for a namespaced kind. */
  get scopes(): ReadonlyMap<string, boolean> {
    return new Map([...this.#kinds].map(([text, [kind]]) => [text, kind?.isNamespaced === true]))
  }

  /** True if a server of the group does not answer now: the group may have more kinds. */
  isStale(group: string): boolean {
    return this.#stale.has(group)
  }

  /** All kinds are known. */
  get isWhole(): boolean {
    return this.#stale.size === 0
  }

  /** Versions and kinds in the form of helm's `--api-versions`: `apps/v1`, `apps/v1/Deployment`. */
  get apiVersions(): readonly string[] {
    const all = new Set<string>()
    for (const kinds of this.#kinds.values()) {
      for (const { group, version, kind } of kinds) {
        const apiVersion = apiVersionOf({ group, version })
        all.add(apiVersion).add(`${apiVersion}/${kind}`)
      }
    }
    return [...all].sort()
  }
}

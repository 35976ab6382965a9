import t from 'tap'
import { ignoreRemarks } from '../../../../src/kas/cli/check-config/ignore-rules.ts'
import { commonTypes, typesOfKind } from '../../../../src/kas/cli/check-config/known-lists.ts'
import { kindKey, parseKindKey } from '../../../../src/kubernetes/kind.ts'
import { at, field, type KubernetesObject, listAt, textAt } from '../../../../src/kubernetes/object.ts'
import { Ground, skip } from './ground.ts'

/** What `kas check-config` knows of Kubernetes' own kinds, against a real API server. */

const maxBytes = 16 * 1024 * 1024

/** Schemas of a group, as the API server publishes them. */
class Schemas {
  readonly #all: KubernetesObject

  constructor(document: unknown) {
    this.#all = at(document, 'components.schemas') as KubernetesObject
  }

  ofKind({ group, kind }: { group: string; kind: string }): unknown {
    return Object.values(this.#all).find((schema) => {
      const kinds = field(schema, 'x-kubernetes-group-version-kind')
      return Array.isArray(kinds) && kinds.some((one) => one.group === group && one.kind === kind && one.version !== '')
    })
  }

  /** Returns the chain of schemas of a field: its own, and those that it refers to. */
  #parts(schema: unknown): readonly unknown[] {
    const references = [textAt(schema, '$ref'), ...listAt(schema, 'allOf').map((one) => textAt(one, '$ref'))]
    const names = references.filter((one) => one !== '').map((one) => one.split('/').at(-1) ?? '')
    return [schema, ...names.flatMap((name) => this.#parts(this.#all[name]))]
  }

  below(schema: unknown, name: string): unknown {
    const parts = this.#parts(schema).flatMap((part) => {
      const items = field(part, 'items')
      return items === undefined ? [part] : [part, ...this.#parts(items)]
    })
    return parts.map((part) => at(part, `properties.${name}`)).find((found) => found !== undefined)
  }

  /** @returns as `ListType`; undefined: it is divided by its names */
  type(schema: unknown): string | undefined {
    const types = this.#parts(schema).map((part) => {
      if (field(part, 'x-kubernetes-map-type') === 'atomic') return 'atomic'
      const list = field(part, 'x-kubernetes-list-type')
      if (list === 'map') return (field(part, 'x-kubernetes-list-map-keys') as string[]).join()
      if (list === 'set') return 'set'
      return list === 'atomic' || field(part, 'type') === 'array' ? 'atomic' : undefined
    })
    return types.find((type) => type !== undefined)
  }
}

t.test('known lists', { skip, timeout: 120_000 }, async (t) => {
  const ground = await Ground.start(t)
  const documents = new Map<string, Promise<Schemas>>()
  const read = (group: string) => {
    const kind = ground.kinds.listable.find((one) => one.group === group)
    const path = group === '' ? 'api/v1' : `apis/${group}/${kind?.version}`
    const reading =
      documents.get(group) ??
      ground.client
        .json('GET', `/openapi/v3/${path}`, undefined, undefined, { maxBytes })
        .then(({ body }) => new Schemas(body))
    documents.set(group, reading)
    return reading
  }
  /** @returns by path, the type that the API server publishes */
  const published = async (key: string, paths: readonly string[]) => {
    const schemas = await read(parseKindKey(key).group)
    const root = schemas.ofKind(parseKindKey(key))
    const entries = paths.map((path) => {
      const found = path.split('.').reduce<unknown>((schema, name) => schemas.below(schema, name), root)
      return [path, found === undefined ? 'no such field' : schemas.type(found)] as const
    })
    return Object.fromEntries(entries)
  }

  await t.test('types of lists and maps are those that the API server publishes', async (t) => {
    for (const [key, types] of Object.entries(typesOfKind)) {
      t.strictSame(await published(key, Object.keys(types)), { ...types }, key)
    }
    const ofJobs = (path: string) => path.startsWith('spec.jobTemplate.')
    for (const [key, isHere] of [
      ['batch/CronJob', ofJobs],
      ['apps/Deployment', (path: string) => !ofJobs(path)],
    ] as const) {
      const types = Object.entries(commonTypes).filter(([path]) => isHere(path))
      t.ok(types.length > 30)
      t.strictSame(
        await published(
          key,
          types.map(([path]) => path),
        ),
        Object.fromEntries(types),
        key,
      )
    }
  })

  await t.test('no kind that the API server has counts as misspelt', async (t) => {
    const kinds = ground.kinds.listable.flatMap(({ group, kind }) => [kind, kindKey(group, kind)])
    t.ok(kinds.length > 80)
    const warned = kinds.flatMap((kind) => {
      const gitops = { drift: { ignore: [{ kinds: [kind], paths: ['.spec.a'] }] } }
      return ignoreRemarks({ blocks: new Map([['gitops', JSON.stringify(gitops)]]) }).warnings
    })
    t.strictSame(warned, [])
  })
})

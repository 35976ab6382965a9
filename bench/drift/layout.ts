import { hash } from 'node:crypto'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { type ComparedManifest, KeptManifests } from '../../src/agentk/modules/gitops/drift/kept-manifests.ts'
import { ObjectSet } from '../gitops/objects.ts'

export type Mode = 'correct' | 'none'

/** Objects of one or more sources of one project. */
export class Layout {
  readonly sources: readonly ObjectSet[]

  /**
   * @param sources - number; one has all namespaces, and several have one each, so that each needs watches of its own
   * @param objects - of all together
   */
  constructor(sources: number, objects: number) {
    const namespaces = sources === 1 ? 10 : 1
    const names = Array.from({ length: sources }, (_, i) => `source-${i}`)
    this.sources = names.map((name) => new ObjectSet(name, Math.floor(objects / sources), namespaces))
  }

  /** Namespaces that the sources may not create. */
  get namespaces(): readonly string[] {
    return this.sources.length === 1 ? [] : this.sources.flatMap(({ namespaces }) => namespaces)
  }

  files(): Record<string, string> {
    return Object.assign({}, ...this.sources.map((source) => source.files()))
  }

  /** Returns the agent's configuration file, by path. */
  configuration(mode: Mode): Record<string, string> {
    const drift = { mode }
    const manifest_projects = this.sources.map(({ namespaces }, i) => {
      const name = `source-${i}`
      if (this.sources.length === 1) return { name, paths: [{ glob: `${name}/**` }], drift }
      return { name, paths: [{ glob: `${name}/app-*` }], namespaces, drift }
    })
    return configurationFile(manifest_projects)
  }

  /** Returns the memory that agentk's kept manifests of these sources take. MiB */
  async keptMiB(): Promise<number> {
    setFlagsFromString('--expose-gc')
    const collect = runInNewContext('gc') as () => void
    const all = this.sources.map((source) =>
      Array.from({ length: source.apps }, (_, app) => source.objects(app))
        .flat()
        .map(manifestOf),
    )
    let compressed = 0
    const set = (_: object, bytes: number) => {
      compressed += bytes
      return true
    }
    collect()
    const before = process.memoryUsage().heapUsed
    const kept = all.map(() => new KeptManifests({ set, release: () => undefined }))
    for (const [i, manifests] of all.entries()) await kept[i]?.keep(manifests)
    collect()
    const used = process.memoryUsage().heapUsed - before
    if (kept.length !== all.length) throw new Error('both are in memory until here')
    return (used + compressed) / 2 ** 20
  }
}

/** Returns the agent's configuration file with these sources, by path. */
export function configurationFile(manifest_projects: readonly object[]): Record<string, string> {
  return { '.gitlab/agents/prod/gitops.yaml': JSON.stringify({ gitops: { manifest_projects } }) }
}

function manifestOf(object: ReturnType<ObjectSet['objects']>[number]): ComparedManifest {
  const { apiVersion, kind, metadata } = object
  const [group = '', version = ''] = apiVersion.includes('/') ? apiVersion.split('/') : ['', apiVersion]
  const { namespace, name } = metadata
  const digest = hash('sha256', JSON.stringify(object))
  return {
    key: { group, kind, namespace, name },
    version,
    object: { ...object },
    digest,
    file: `${name}.yaml`,
    line: 1,
  }
}

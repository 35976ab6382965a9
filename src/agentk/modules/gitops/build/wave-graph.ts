import { keyName, keyText, type ObjectKey } from '../../../../kubernetes/key.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import type { Manifest, ManifestProblem, ObjectTree } from '../manifests/manifest.ts'
import { isSecret, shownAnnotation } from '../manifests/secrets.ts'
import type { WaveGraph } from '../round.ts'

const dependsOn = 'config.kubernetes.io/depends-on'
const syncWave = 'argocd.argoproj.io/sync-wave'
/** Limit of objects that one annotation names. */
export const maxDependsOn = 100
/** Limit of names in the text of a problem. */
const maxCycleNames = 10

/**
 * Builds the graph of dependencies. An object waits for all objects of a lower sync-wave, and for those that its
 * depends-on names. It also waits for its namespace and the definition of its kind. Problems are cycles, names of no
 * object in the set, and waves that are no number. A graph with problems is not to be used.
 */
export function waveGraph(manifests: readonly Manifest[]): { problems: ManifestProblem[]; graph: WaveGraph } {
  const problems: ManifestProblem[] = []
  const nodes = new Map(
    manifests.map((manifest): [string, Node] => [keyText(manifest.key), { manifest, after: new Set<string>() }]),
  )
  addNamed(nodes, problems)
  addImplied(nodes)
  const steps = wavesOf(manifests, problems)
  const { order, waves } = sorted(nodes, steps)
  const cycle = cycleOf(nodes, steps, new Set(order))
  const [first] = cycle
  if (first) {
    const names = [...cycle, first].map(({ key }) => keyName(key))
    const named = names.length > maxCycleNames ? [...names.slice(0, maxCycleNames), '…'] : names
    problems.push({ file: first.file, line: first.line, text: `cycle: ${named.join(' waits for ')}` })
  }
  return { problems, graph: new Graph(nodes, steps, order, waves) }
}

interface Node {
  readonly manifest: Manifest
  /** keys that it waits for, without those of lower waves */
  readonly after: Set<string>
}

/** Objects by sync-wave; the objects of each step wait for the whole step before. */
interface Steps {
  readonly steps: readonly (readonly string[])[]
  readonly stepOf: ReadonlyMap<string, number>
}

function annotation({ object }: Manifest, name: string): string | undefined {
  const { annotations } = object.metadata as { annotations?: Readonly<Record<string, string>> }
  return annotations?.[name]
}

/** Returns the value, or a part of it, as texts show it. */
function shown({ key }: Manifest, name: string, value: string): string {
  return shownAnnotation(isSecret(key), name, value)
}

function addNamed(nodes: ReadonlyMap<string, Node>, problems: ManifestProblem[]): void {
  for (const { manifest, after } of nodes.values()) {
    const names = annotation(manifest, dependsOn)?.split(',') ?? []
    const bad = (text: string) => {
      const { file, line, key } = manifest
      problems.push({ file, line, text: `${keyName(key)}: ${dependsOn}: ${text}` })
    }
    if (names.length > maxDependsOn) {
      bad(`more than ${maxDependsOn} objects`)
      continue
    }
    for (const name of names) {
      const key = namedKey(name.trim())
      const shownValue = (value: string) => shown(manifest, dependsOn, value)
      if (!key) {
        const forms = '<group>/namespaces/<namespace>/<kind>/<name> or <group>/<kind>/<name>'
        bad(`${shownValue(name.trim().slice(0, 300))} is no ${forms}`)
      } else if (!nodes.has(keyText(key))) bad(`${shownValue(keyName(key))} is no object of this source`)
      else after.add(keyText(key))
    }
  }
}

/** Reads the forms of cli-utils; the core group is empty. */
function namedKey(text: string): ObjectKey | undefined {
  const parts = text.split('/')
  const [group = '', second = '', third = '', fourth = '', fifth = ''] = parts
  if (parts.length === 3 && second && third) return { group, kind: second, namespace: '', name: third }
  if (parts.length !== 5 || second !== 'namespaces' || !third || !fourth || !fifth) return undefined
  return { group, kind: fourth, namespace: third, name: fifth }
}

function addImplied(nodes: ReadonlyMap<string, Node>): void {
  const definitions = new Map<string, string>()
  for (const [text, { manifest }] of nodes) {
    const { group, kind } = manifest.key
    if (group !== 'apiextensions.k8s.io' || kind !== 'CustomResourceDefinition') continue
    const { group: of, names } = (manifest.object.spec ?? {}) as ObjectTree
    definitions.set(kindKey(String(of), String((names as ObjectTree | undefined)?.kind)), text)
  }
  for (const [text, { manifest, after }] of nodes) {
    const { group, kind, namespace } = manifest.key
    const home = keyText({ group: '', kind: 'Namespace', namespace: '', name: namespace })
    const definition = definitions.get(kindKey(group, kind))
    if (namespace && nodes.has(home)) after.add(home)
    if (definition !== undefined && definition !== text) after.add(definition)
  }
}

function wavesOf(manifests: readonly Manifest[], problems: ManifestProblem[]): Steps {
  const byWave = new Map<number, string[]>()
  for (const manifest of manifests) {
    const { file, line, key } = manifest
    const text = annotation(manifest, syncWave) ?? '0'
    const isWave = /^[-+]?\d{1,9}$/.test(text)
    if (!isWave) {
      const value = shown(manifest, syncWave, text.slice(0, 100))
      problems.push({ file, line, text: `${keyName(key)}: ${syncWave}: ${value} is no number` })
    }
    const wave = isWave ? Number(text) + 0 : 0
    const keys = byWave.get(wave) ?? []
    keys.push(keyText(key))
    byWave.set(wave, keys)
  }
  const steps = [...byWave].sort(([one], [other]) => one - other).map(([, keys]) => keys.sort())
  return { steps, stepOf: new Map(steps.flatMap((keys, step) => keys.map((key) => [key, step] as const))) }
}

/**
 * Sorts the objects into rounds: each has the objects that wait only for earlier rounds. Objects in a cycle, or behind
 * one, are in none.
 */
function sorted(
  nodes: ReadonlyMap<string, Node>,
  { steps, stepOf }: Steps,
): { order: string[]; waves: Map<string, number> } {
  const dependents = dependentsOf(nodes)
  const left = steps.map((keys) => keys.length)
  const waits = new Map([...nodes].map(([key, { after }]) => [key, after.size + (stepOf.get(key) ? 1 : 0)] as const))
  const order: string[] = []
  const waves = new Map<string, number>()
  let round = [...nodes.keys()].filter((key) => waits.get(key) === 0).sort()
  for (let wave = 0; round.length > 0; wave++) {
    const next: string[] = []
    const release = (key: string) => {
      const rest = (waits.get(key) as number) - 1
      waits.set(key, rest)
      if (rest === 0) next.push(key)
    }
    for (const key of round) {
      order.push(key)
      waves.set(key, wave)
      for (const dependent of dependents.get(key) ?? []) release(dependent)
      const step = stepOf.get(key) as number
      left[step] = (left[step] as number) - 1
      if (left[step] === 0) for (const later of steps[step + 1] ?? []) release(later)
    }
    round = next.sort()
  }
  return { order, waves }
}

function dependentsOf(nodes: ReadonlyMap<string, Node>): Map<string, string[]> {
  const dependents = new Map<string, string[]>()
  for (const [key, { after }] of nodes) {
    for (const before of after) {
      const own = dependents.get(before) ?? []
      own.push(key)
      dependents.set(before, own)
    }
  }
  return dependents
}

/** Returns one cycle among the objects without a round: each of them waits for another of them. */
function cycleOf(nodes: ReadonlyMap<string, Node>, { steps, stepOf }: Steps, placed: ReadonlySet<string>): Manifest[] {
  const path = new Set<string>()
  let at = [...nodes.keys()].sort().find((key) => !placed.has(key))
  while (at !== undefined && !path.has(at)) {
    path.add(at)
    const stepBefore = steps[(stepOf.get(at) as number) - 1] ?? []
    at = [...[...(nodes.get(at) as Node).after].sort(), ...stepBefore].find((key) => !placed.has(key))
  }
  const keys = [...path]
  return at === undefined ? [] : keys.slice(keys.indexOf(at)).map((key) => (nodes.get(key) as Node).manifest)
}

const none: readonly string[] = []

class Graph implements WaveGraph {
  readonly order: readonly string[]
  readonly #nodes: ReadonlyMap<string, Node>
  readonly #steps: Steps
  readonly #waves: ReadonlyMap<string, number>
  readonly #dependents: ReadonlyMap<string, readonly string[]>

  constructor(
    nodes: ReadonlyMap<string, Node>,
    steps: Steps,
    order: readonly string[],
    waves: ReadonlyMap<string, number>,
  ) {
    this.#nodes = nodes
    this.#steps = steps
    this.order = order
    this.#waves = waves
    this.#dependents = dependentsOf(nodes)
  }

  named(key: string): readonly string[] {
    return [...(this.#nodes.get(key)?.after ?? [])]
  }

  stepBefore(key: string): readonly string[] {
    return this.#stepBeside(key, -1)
  }

  dependents(key: string): readonly string[] {
    return together(this.#dependents.get(key) ?? [], this.#stepBeside(key, 1))
  }

  wave(key: string): number {
    return this.#waves.get(key) ?? 0
  }

  #stepBeside(key: string, by: number): readonly string[] {
    const step = this.#steps.stepOf.get(key)
    return step === undefined ? none : (this.#steps.steps[step + by] ?? none)
  }
}

/** Joins two lists; a large step alone is not copied. */
function together(own: readonly string[], step: readonly string[]): readonly string[] {
  return own.length === 0 ? step : step.length === 0 ? own : [...new Set([...own, ...step])]
}

import { parseArgs } from 'node:util'
import { attacks } from '../hostile/attacks.ts'

/** The options of each scene, with their defaults. */
export const sceneDefaults = {
  watch: { minutes: 6 },
  crowd: { watches: 200, execs: 50 },
  burst: { calls: 500 },
  readers: { readers: 100, pairs: 10, calls: 300, milliseconds: 0 },
  rolling: { calls: 100, watches: 50, execs: 20, grace: 30 },
  'exactly-once': { times: 200, seed: 1 },
  watches: { kills: 30, freezes: 5, pods: 3, restarts: 3, entries: 3, rate: 50 },
  namespaces: {},
  placement: { agents: 200, age: 60 },
  fronts: { minutes: 6 },
  'cutting-front': { minutes: 11 },
  withdrawn: {},
  ended: { times: 20 },
  hostile: { seconds: 60 },
  memory: { seconds: 30, mebibytes: 1024 },
  views: { times: 10, views: 50, pods: 20_000, runs: 100 },
  unlisted: {},
  rollouts: {},
  clients: {},
  charts: { calls: 50, watches: 20, execs: 5 },
  renderings: {},
  gitops: { pushes: 200, kills: 20, freezes: 10, minutes: 30, polls: 20, hooks: 15, seed: 1 },
  repositories: {},
} as const

/** Attacks of the scene `hostile`, in this order. */
export const attackNames = attacks.map(({ name }) => name)

/** Parts of the scene `views`, in this order. */
export const viewsParts = ['faults', 'rights', 'records', 'rollouts'] as const
export type ViewsPart = (typeof viewsParts)[number]

/** Parts of the scene `gitops`, in this order. */
export const gitopsParts = ['kills', 'frozen', 'faults', 'calls', 'lies', 'polls', 'hooks'] as const
export type GitopsPart = (typeof gitopsParts)[number]

/** Parts of the scene `rolling`, in this order. */
export const rollingParts = ['calls', 'streams'] as const
export type RollingPart = (typeof rollingParts)[number]

/** Attacks of the scene `memory`, in this order. */
export const memoryParts = ['fleet-of-tenant', 'fleet-of-projects', 'idle-callers'] as const
export type MemoryPart = (typeof memoryParts)[number]

/** parts of the scenes that have any */
const partsOf: { readonly [Name in SceneName]?: readonly string[] } = {
  rolling: rollingParts,
  memory: memoryParts,
  views: viewsParts,
  gitops: gitopsParts,
}

export type SceneName = keyof typeof sceneDefaults
type NumbersOf<Name extends SceneName> = { readonly [Option in keyof (typeof sceneDefaults)[Name]]: number }

export const schemes = ['wss', 'grpcs'] as const
/** scheme of agentk's connection to kas; both carry TLS */
export type Scheme = (typeof schemes)[number]

/** The scene and its options; `help` asks for the usage alone. */
export type SoakOptions =
  | { readonly help: true }
  | {
      [Name in SceneName]: { readonly scene: Name; readonly scheme: Scheme } & NumbersOf<Name> & Chosen<Name>
    }[SceneName]

/** default: all parts */
type Chosen<Name> = Name extends 'hostile'
  ? { readonly attack?: string; readonly installed?: true }
  : Name extends 'views'
    ? { readonly part?: ViewsPart }
    : Name extends 'gitops'
      ? { readonly part?: GitopsPart }
      : Name extends 'rolling'
        ? { readonly part?: RollingPart }
        : Name extends 'memory'
          ? { readonly part?: MemoryPart }
          : unknown

/** one connection each, and the number of ports is limited */
const maxCount = 10_000
/** limits of counts that are not of connections */
const maxCounts: Readonly<Record<string, number>> = { pods: 100_000 }
/** a day; a timer's longest is 24.8 days */
const maxMinutes = 24 * 60

/** @throws Error that names the argument and its allowed values */
export function soakOptions(args: readonly string[]): SoakOptions {
  const names = Object.keys(sceneDefaults)
  const numbers = [...new Set(Object.values(sceneDefaults).flatMap((defaults) => Object.keys(defaults)))]
  const texts = [...numbers, 'scheme', 'attack', 'part'].map((name) => [name, { type: 'string' }] as const)
  const { values, positionals } = parseArgs({
    args: [...args],
    allowPositionals: true,
    options: { ...Object.fromEntries(texts), installed: { type: 'boolean' }, help: { type: 'boolean' } },
  })
  if (values.help) return { help: true }
  const [scene = '', ...more] = positionals
  if (!isScene(scene))
    throw new Error(`${scene ? `no scene ${scene}` : 'a scene is missing'}: one of ${names.join(', ')}`)
  if (more.length > 0) throw new Error(`${more.join(' ')}: one scene at a time, and nothing else`)
  const defaults: Readonly<Record<string, number>> = sceneDefaults[scene]
  const allowed = [
    ...Object.keys(defaults),
    ...(withoutScheme.has(scene) ? [] : ['scheme']),
    ...(scene === 'hostile' ? ['attack', 'installed'] : []),
    ...(partsOf[scene] ? ['part'] : []),
  ]
  const foreign = Object.keys(values).find((name) => !allowed.includes(name))
  if (foreign)
    throw new Error(`--${foreign}: ${scene} has ${allowed.map((name) => `--${name}`).join(', ') || 'no options'}`)
  const given = values as Readonly<Record<string, string | undefined>>
  const chosen = Object.entries(defaults).map(([name, value]) => [name, numberOf(name, given[name], value)])
  const attack = given.attack === undefined ? {} : { attack: oneOf('attack', attackNames, given.attack) }
  const part = given.part === undefined ? {} : { part: oneOf('part', partsOf[scene] ?? [], given.part) }
  return {
    scene,
    scheme: oneOf('scheme', schemes, given.scheme ?? schemes[0]),
    ...attack,
    ...(given.installed ? { installed: true } : {}),
    ...part,
    ...Object.fromEntries(chosen),
  }
}

/** scenes with one scheme, or without agentk */
const withoutScheme: ReadonlySet<SceneName> = new Set([
  'exactly-once',
  'watches',
  'namespaces',
  'placement',
  'fronts',
  'cutting-front',
  'withdrawn',
  'ended',
  'hostile',
  'memory',
  'views',
  'unlisted',
  'rollouts',
  'clients',
  'charts',
  'renderings',
  'gitops',
  'repositories',
])

const isScene = (name: string): name is SceneName => Object.hasOwn(sceneDefaults, name)

function numberOf(name: string, text: string | undefined, otherwise: number): number {
  if (text === undefined) return otherwise
  const value = text.trim() === '' ? Number.NaN : Number(text)
  if (name === 'minutes') {
    if (!(value > 0 && value <= maxMinutes))
      throw new Error(`--minutes ${text}: a number above 0, at most ${maxMinutes}`)
    return value
  }
  const max = maxCounts[name] ?? maxCount
  if (Number.isInteger(value) && value >= 1 && value <= max) return value
  throw new Error(`--${name} ${text}: a whole number from 1 to ${max}`)
}

function oneOf<Word extends string>(option: string, words: readonly Word[], text: string): Word {
  const word = words.find((one) => one === text)
  if (!word) throw new Error(`--${option} ${text}: one of ${words.join(', ')}`)
  return word
}

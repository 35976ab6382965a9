import { readFile } from 'node:fs/promises'
import { type Flags, parseFlags } from '../config/flags.ts'

/** The flags and the environment of a running agentk. */
export interface RunningAgentk {
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

export interface Merged {
  readonly flags: Flags
  readonly env: NodeJS.ProcessEnv
  /** names of flags and variables that come from the running agentk */
  readonly taken: readonly string[]
}

/** Path of agentk's program in an image, in its package and in a clone. It may follow the program that starts it. */
const program = /(?:^|\/)(?:dist\/agentk\/main\.js|src\/agentk\/main\.ts|agentk(?:\.mjs)?)$/

/** Variables that agentk reads. */
const variables = [
  'POD_NAMESPACE',
  'POD_NAME',
  'AGENTK_TOKEN',
  'KUBECONFIG',
  'HTTPS_PROXY',
  'HTTP_PROXY',
  'NO_PROXY',
  'KUBERNETES_SERVICE_HOST',
  'KUBERNETES_SERVICE_PORT',
]

/** Flags that a given flag replaces. */
const replaced: Readonly<Partial<Record<keyof Flags, readonly (keyof Flags)[]>>> = {
  'ca-cert-file': ['kas-ca-cert-file'],
  kubeconfig: ['context', 'cluster', 'user'],
}

/**
 * Reads the command line of process 1: in a pod it is agentk, or starts agentk.
 *
 * @returns undefined if process 1 is another program, is this one, or may not be read
 */
export async function runningAgentk(folder = '/proc/1'): Promise<RunningAgentk | undefined> {
  if (process.pid === 1) return undefined
  const read = async (name: string) => (await readFile(`${folder}/${name}`, 'utf8')).split('\0').filter(Boolean)
  try {
    const [words, environment] = await Promise.all([read('cmdline'), read('environ')])
    const at = words.findIndex((word) => program.test(word))
    const args = words.slice(at + 1)
    if (at < 0 || args[0] === 'doctor') return undefined
    const pairs = environment.map((line) => [line.replace(/=.*$/s, ''), line.replace(/^[^=]*=/, '')] as const)
    return { args, env: Object.fromEntries(pairs) }
  } catch {
    return undefined // not Linux, or a process of another user
  }
}

/**
 * Adds the flags and the environment of the running agentk. Given ones take precedence.
 *
 * @throws UsageError for flags that cannot be used
 */
export function mergeRunning(given: Flags, env: NodeJS.ProcessEnv, running: RunningAgentk | undefined): Merged {
  if (!running) return { flags: given, env, taken: [] }
  const own = parseFlags(running.args)
  const isGiven = (name: string) => given[name as keyof Flags] !== undefined
  const hidden = new Set<string>(Object.entries(replaced).flatMap(([name, others]) => (isGiven(name) ? others : [])))
  // only one of the token file and AGENTK_TOKEN may be set
  const isInherited = env.AGENTK_TOKEN === running.env.AGENTK_TOKEN
  if (isGiven('token-file')) hidden.add('AGENTK_TOKEN')
  else if (env.AGENTK_TOKEN && !isInherited) hidden.add('token-file')
  const flags = Object.entries(own).filter(([name]) => !isGiven(name) && !hidden.has(name))
  const names = variables.filter((name) => !env[name] && running.env[name] && !hidden.has(name))
  const kept = hidden.has('AGENTK_TOKEN') && isInherited ? { ...env, AGENTK_TOKEN: undefined } : env
  return {
    flags: { ...Object.fromEntries(flags), ...given },
    env: { ...kept, ...Object.fromEntries(names.map((name) => [name, running.env[name]])) },
    taken: [...flags.map(([name]) => `--${name}`), ...names],
  }
}

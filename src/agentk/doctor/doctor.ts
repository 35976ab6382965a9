import { checkAuthority } from '../../lib/doctor/authority-findings.ts'
import {
  boundedFindings,
  type Finding,
  type Found,
  failed,
  failuresOf,
  findingsText,
} from '../../lib/doctor/findings.ts'
import { fingerprint } from '../../lib/doctor/fingerprint.ts'
import { checkProxies } from '../../lib/doctor/proxy-findings.ts'
import { type Check, runChecks } from '../../lib/doctor/run-checks.ts'
import { checkServedChain } from '../../lib/doctor/served-chain.ts'
import { isLoopbackHost } from '../../lib/host-port.ts'
import { printableJson } from '../../lib/printable.ts'
import { PrintableOutput, type TextStream } from '../../lib/printable-output.ts'
import { proxyFromEnvironment } from '../../lib/proxy.ts'
import { trustedContext } from '../../lib/trusted-authorities.ts'
import type { Version } from '../../lib/version.ts'
import { type Config, readConfig } from '../config/config.ts'
import { parseFlags, UsageError } from '../config/flags.ts'
import { checkCluster } from './cluster.ts'
import { checkIdle, checkKas } from './kas.ts'
import { mergeRunning, type RunningAgentk } from './running-agentk.ts'

interface Ground {
  readonly config: Config
  readonly version: Version
  /** undefined: not asked for */
  readonly idleSeconds: number | undefined
  /** finding of the check `kas`, and the agent's id, which names the Lease */
  readonly kas: ReturnType<typeof checkKas>
}

const checks: readonly Check<Ground>[] = [
  { name: 'token', run: ({ config }) => [checkToken(config.token())] },
  { name: 'authority', run: ({ config }) => checkAuthorities(config) },
  { name: 'proxies', run: ({ config }) => checkProxies(config.env) },
  { name: 'kas', run: async ({ kas }) => [(await kas).found] },
  { name: 'idle', run: async ({ config, version, idleSeconds }) => [await checkIdle(config, version, idleSeconds)] },
  { name: 'cluster', run: ({ config, kas }) => checkCluster(config, kas) },
  { name: 'rights', needs: ['cluster'] },
  { name: 'clocks', needs: ['cluster'] },
]

/** Checks of `agentk doctor`, in the order of doc/operate/doctor.md. */
export const checkNames: readonly string[] = ['configuration', ...checks.map(({ name }) => name)]

/** Characters that no token has. agentk itself removes a line break at the end of the file. */
const strange = /[^\x21-\x7e]/

/**
 * Runs `agentk doctor`, which finds out what is wrong between this pod, kas and the cluster. It registers nothing.
 *
 * @param args - flags of agentk, `-o json` and `--idle SECONDS`
 * @returns the exit code: 1 if a check has failed
 * @throws UsageError for another `-o`, or an `--idle` out of range
 */
export async function doctor(
  args: readonly string[],
  {
    env,
    version,
    stdout,
    running,
  }: {
    readonly env: NodeJS.ProcessEnv
    readonly version: Version
    /** agentk in the same container; undefined: there is none */
    readonly running?: RunningAgentk | undefined
    readonly stdout: TextStream
  },
): Promise<number> {
  const output = taken(args, ['--output', '-o'])
  const idle = taken(output.rest, ['--idle'])
  const isJson = output.value === 'json'
  if (!isJson && (output.value ?? 'table') !== 'table') {
    throw new UsageError(`-o ${output.value}: allowed is table, json`)
  }
  const asked = { env, version, running, idleSeconds: secondsOf(idle.value) }
  const findings = boundedFindings(await findingsOf(idle.rest, asked))
  const failures = failuresOf(findings)
  const report = { apiVersion: 'kas/v1', kind: 'DoctorReport', findings, failures }
  new PrintableOutput(stdout).write(isJson ? `${printableJson(report, 2)}\n` : findingsText(findings))
  return failures > 0 ? 1 : 0
}

interface Taken {
  readonly value: string | undefined
  readonly rest: readonly string[]
}

/** Takes `--name value` or `--name=value` out of agentk's own flags. @param flags - names of one option, with dashes */
function taken(args: readonly string[], flags: readonly string[]): Taken {
  const at = args.findIndex((arg) => flags.includes(arg.replace(/=.*/s, '')))
  if (at < 0) return { value: undefined, rest: args }
  const { [at]: arg = '' } = args
  const isJoined = arg.includes('=')
  const value = isJoined ? arg.slice(arg.indexOf('=') + 1) : (args[at + 1] ?? '')
  return { value, rest: args.filter((_, i) => i !== at && (isJoined || i !== at + 1)) }
}

/** the longest silence that `--idle` keeps, in seconds */
const maxIdleSeconds = 86_400

/** @throws UsageError */
function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= maxIdleSeconds) return seconds
  throw new UsageError(`--idle "${text}": allowed is a number of seconds from 1 to ${maxIdleSeconds}`)
}

interface Asked extends Pick<Ground, 'version' | 'idleSeconds'> {
  readonly env: NodeJS.ProcessEnv
  readonly running: RunningAgentk | undefined
}

async function findingsOf(args: readonly string[], { env, running, ...asked }: Asked): Promise<Finding[]> {
  let config: Config
  let taken: readonly string[]
  try {
    const merged = mergeRunning(parseFlags([...args]), env, running)
    config = readConfig(merged.flags, merged.env)
    taken = merged.taken
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const wrong = { check: 'configuration', ...failed(error.message, 'agentk --help shows all flags') }
    return [wrong, ...(await runChecks(checks, undefined))]
  }
  const from = taken.length > 0 ? `; as process 1, the agentk that runs here, has them: ${taken.join(', ')}` : ''
  const configured: Finding = { check: 'configuration', state: 'ok', text: `flags and environment can be used${from}` }
  const ground = { ...asked, config, kas: checkKas(config, asked.version) }
  return [configured, ...(await runChecks(checks, ground))]
}

function checkToken(token: string): Found {
  if (token === '') return failed('it is empty', 'write the token into its file')
  const text = fingerprint(token)
  if (!strange.test(token)) return { state: 'ok', text }
  return failed(`it holds a space, a line break or the like; ${text}`, 'write the token alone, as plain text')
}

async function checkAuthorities(config: Config): Promise<Found[]> {
  const { caFile } = config.kas
  const flag = '--kas-ca-cert-file'
  const own: Promise<Found[]> | Found[] = caFile
    ? checkAuthority('authority', flag, caFile)
    : [{ state: 'skipped', text: `${flag} is not given: those of the system are trusted` }]
  return (await Promise.all([own, checkChain(config)])).flat()
}

/** ms */
const chainTimeoutMs = 10_000

/** Checks the certificate chain that the server at `--kas-address` sends. */
async function checkChain({ kas, env }: Config): Promise<Found[]> {
  const { address, caFile, serverName, skipVerify } = kas
  const subject = '--kas-address'
  if (!address.tls) {
    if (isLoopbackHost(address.host)) return []
    const text = `${address.scheme}://${address.authority} has no TLS: the agent's token and what calls carry can be read on the way`
    const advice = `let kas, or a proxy in front of it, have a certificate, and write ${address.webSocket ? 'wss' : 'grpcs'}://`
    return [{ state: 'note', subject, text, advice }]
  }
  if (skipVerify) {
    const text = 'the certificate of kas is not checked: whoever is between may read all'
    const advice = 'give --kas-ca-cert-file in place of --kas-insecure-skip-tls-verify'
    return [{ state: 'note', subject, text, advice }]
  }
  const { host, port } = address
  const protocols = address.webSocket ? {} : { ALPNProtocols: ['h2'] }
  const keep = '--kas-ca-cert-file'
  try {
    if (proxyFromEnvironment(env, 'https', address)) {
      return [{ state: 'skipped', subject, text: 'kas is reached by a proxy: what its server sends is not checked' }]
    }
    const secureContext = await trustedContext(caFile || undefined, keep)
    const asked = { host, port, serverName, secureContext, ...protocols }
    return [{ subject, ...(await checkServedChain(asked, { keep, now: Date.now(), timeoutMs: chainTimeoutMs })) }]
  } catch (error) {
    return [{ state: 'skipped', subject, text: (error as Error).message }] // the file or `proxies` has its own finding
  }
}

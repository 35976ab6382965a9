import { hash } from 'node:crypto'
import { boundedFindings, type Finding, failuresOf, findingsText, problemFindings } from '../../lib/findings.ts'
import { isLoopbackHost } from '../../lib/host-port.ts'
import { printableJson } from '../../lib/printable.ts'
import { PrintableOutput, type TextStream } from '../../lib/printable-output.ts'
import { proxyFromEnvironment } from '../../lib/proxy.ts'
import { checkProxies } from '../../lib/proxy-findings.ts'
import { checkServedChain } from '../../lib/served-chain.ts'
import { readAuthorities, trustedContext } from '../../lib/trusted-authorities.ts'
import type { Version } from '../../lib/version.ts'
import { type Config, readConfig } from '../config/config.ts'
import { parseFlags, UsageError } from '../config/flags.ts'
import { checkCluster } from './cluster.ts'
import { checkIdle, checkKas } from './kas.ts'
import { mergeRunning, type RunningAgentk } from './running-agentk.ts'

/** Checks of `agentk doctor`, in the order of doc/operate/doctor.md. */
export const checkNames = [
  'configuration',
  'token',
  'authority',
  'proxies',
  'kas',
  'idle',
  'cluster',
  'rights',
  'clocks',
] as const

const fingerprintLength = 12
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

const maxIdleSeconds = 86_400

/** @throws UsageError */
function secondsOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const seconds = /^\d+$/.test(text) ? Number(text) : 0
  if (seconds >= 1 && seconds <= maxIdleSeconds) return seconds
  throw new UsageError(`--idle "${text}": allowed is a number of seconds from 1 to ${maxIdleSeconds}`)
}

interface Asked {
  readonly env: NodeJS.ProcessEnv
  readonly version: Version
  readonly running: RunningAgentk | undefined
  readonly idleSeconds: number | undefined
}

async function findingsOf(args: readonly string[], { version, idleSeconds, ...asked }: Asked): Promise<Finding[]> {
  let config: Config
  let taken: readonly string[]
  try {
    const merged = mergeRunning(parseFlags([...args]), asked.env, asked.running)
    config = readConfig(merged.flags, merged.env)
    taken = merged.taken
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const others = checkNames.filter((check) => check !== 'configuration')
    return [
      { check: 'configuration', state: 'failed', text: error.message, advice: 'agentk --help shows all flags' },
      ...others.map((check): Finding => ({ check, state: 'skipped', text: 'the configuration cannot be used' })),
    ]
  }
  const [authority, chain, proxies, { finding: kas, agentId }, idle] = await Promise.all([
    checkAuthority(config.kas.caFile),
    checkChain(config),
    checkProxies(config.env),
    checkKas(config, version),
    checkIdle(config, version, idleSeconds),
  ])
  const cluster = await checkCluster(config, agentId) // the Lease is named by the agent's id
  const from = taken.length > 0 ? `; as process 1, the agentk that runs here, has them: ${taken.join(', ')}` : ''
  const configured: Finding = { check: 'configuration', state: 'ok', text: `flags and environment can be used${from}` }
  return [configured, checkToken(config), ...authority, ...chain, ...proxies, kas, idle, ...cluster]
}

function checkToken({ token }: Config): Finding {
  const text = token()
  const fingerprint = `sha256 of it begins with ${hash('sha256', text, 'hex').slice(0, fingerprintLength)}`
  if (text === '')
    return { check: 'token', state: 'failed', text: 'it is empty', advice: 'write the token into its file' }
  if (!strange.test(text)) return { check: 'token', state: 'ok', text: fingerprint }
  const advice = 'write the token alone, as plain text'
  return { check: 'token', state: 'failed', text: `it holds a space, a line break or the like; ${fingerprint}`, advice }
}

async function checkAuthority(file: string | undefined): Promise<Finding[]> {
  const check = 'authority'
  const flag = '--kas-ca-cert-file'
  if (!file) return [{ check, state: 'skipped', text: `${flag} is not given: those of the system are trusted` }]
  try {
    await readAuthorities(file, flag)
    const text = `${file} holds certificates that can be read; their dates are not checked`
    return [{ check, state: 'ok', subject: flag, text }]
  } catch (error) {
    const advice = 'write the certificate of the authority there, in PEM'
    return problemFindings(check, error).map((one) => ({ ...one, advice }))
  }
}

/** ms */
const chainTimeoutMs = 10_000

/** Checks the certificate chain that the server at `--kas-address` sends. */
async function checkChain({ kas, env }: Config): Promise<Finding[]> {
  const { address, caFile, serverName, skipVerify } = kas
  const at = { check: 'authority', subject: '--kas-address' }
  if (!address.tls) {
    if (isLoopbackHost(address.host)) return []
    const text = `${address.scheme}://${address.authority} has no TLS: the agent's token and what calls carry can be read on the way`
    const advice = `let kas, or a proxy in front of it, have a certificate, and write ${address.webSocket ? 'wss' : 'grpcs'}://`
    return [{ ...at, state: 'note', text, advice }]
  }
  if (skipVerify) {
    const text = 'the certificate of kas is not checked: whoever is between may read all'
    return [
      { ...at, state: 'note', text, advice: 'give --kas-ca-cert-file in place of --kas-insecure-skip-tls-verify' },
    ]
  }
  const { host, port } = address
  const protocols = address.webSocket ? {} : { ALPNProtocols: ['h2'] }
  const keep = '--kas-ca-cert-file'
  try {
    if (proxyFromEnvironment(env, 'https', address)) {
      return [{ ...at, state: 'skipped', text: 'kas is reached by a proxy: what its server sends is not checked' }]
    }
    const secureContext = await trustedContext(caFile || undefined, keep)
    const asked = { host, port, serverName, secureContext, ...protocols }
    return [{ ...at, ...(await checkServedChain(asked, { keep, now: Date.now(), timeoutMs: chainTimeoutMs })) }]
  } catch (error) {
    return [{ ...at, state: 'skipped', text: (error as Error).message }] // the file or `proxies` has its own finding
  }
}

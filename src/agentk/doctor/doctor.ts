import { hash } from 'node:crypto'
import { type Finding, failuresOf, findingsText, problemFindings } from '../../lib/findings.ts'
import { printableJson } from '../../lib/printable.ts'
import { trustedContext } from '../../lib/trusted-authorities.ts'
import type { Version } from '../../lib/version.ts'
import { type Config, readConfig } from '../config/config.ts'
import { parseFlags, UsageError } from '../config/flags.ts'
import { checkCluster } from './cluster.ts'
import { checkKas } from './kas.ts'

/** What `agentk doctor` looks at, in the order of doc/doctor.md. */
export const checkNames = ['configuration', 'token', 'authority', 'kas', 'cluster', 'rights'] as const

const fingerprintLength = 12
/** What no token has; a line break at the end of the file is taken off by agentk. */
const strange = /[^\x21-\x7e]/

export interface DoctorContext {
  readonly env: NodeJS.ProcessEnv
  readonly version: Version
  readonly stdout: { write(text: string): unknown }
}

/**
 * `agentk doctor`: what is wrong between this pod, kas and the cluster. It registers nothing.
 *
 * @param args - agentk's own, and `--output json`
 * @returns the exit code: 1 if a check has failed
 * @throws UsageError for another `--output`
 */
export async function doctor(args: readonly string[], { env, version, stdout }: DoctorContext): Promise<number> {
  const { flags, isJson } = withoutOutput(args)
  const findings = await findingsOf(flags, env, version)
  const failures = failuresOf(findings)
  stdout.write(isJson ? `${printableJson({ findings, failures }, 2)}\n` : findingsText(findings))
  return failures > 0 ? 1 : 0
}

function withoutOutput(args: readonly string[]): { flags: string[]; isJson: boolean } {
  const joined = args.flatMap((arg) =>
    arg.startsWith('--output=') ? ['--output', arg.slice('--output='.length)] : [arg],
  )
  const at = joined.indexOf('--output')
  if (at < 0) return { flags: joined, isJson: false }
  const [, output = ''] = joined.splice(at, 2)
  if (output !== 'json' && output !== 'text') throw new UsageError(`--output "${output}": allowed is text or json`)
  return { flags: joined, isJson: output === 'json' }
}

async function findingsOf(args: readonly string[], env: NodeJS.ProcessEnv, version: Version): Promise<Finding[]> {
  let config: Config
  try {
    config = readConfig(parseFlags(args), env)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    const others = checkNames.filter((check) => check !== 'configuration')
    return [
      { check: 'configuration', state: 'failed', text: error.message, advice: 'agentk --help shows all flags' },
      ...others.map((check): Finding => ({ check, state: 'skipped', text: 'the configuration cannot be used' })),
    ]
  }
  const { caFile } = config.kas
  const [authority, { finding: kas, agentId }] = await Promise.all([checkAuthority(caFile), checkKas(config, version)])
  const cluster = await checkCluster(config, agentId) // the name of the Lease is by the agent's id
  const configured: Finding = { check: 'configuration', state: 'ok', text: 'flags and environment can be used' }
  return [configured, checkToken(config), ...authority, kas, ...cluster]
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
    await trustedContext(file, flag)
    const text = `${file} holds certificates that can be read; their dates are not looked at`
    return [{ check, state: 'ok', subject: flag, text }]
  } catch (error) {
    const advice = 'write the certificate of the authority there, in PEM'
    return problemFindings(check, error).map((one) => ({ ...one, advice }))
  }
}

import type { Clock } from '../../../lib/clock.ts'
import { warningReason } from '../../../lib/config.ts'
import { type Finding, failuresOf, findingsText, problemFindings } from '../../../lib/findings.ts'
import { printableJson } from '../../../lib/printable.ts'
import { type KasConfig, loadKasConfig } from '../../config/kas-config.ts'
import { type CliIo, parsedArgs, required, textOption, UsageError } from '../command.ts'
import { checkCertificates } from './certificates.ts'
import { type CheckName, checkNames } from './check-names.ts'
import { checkGitlab } from './gitlab.ts'
import { checkReplicas } from './replicas.ts'
import { checkSecrets } from './secrets.ts'
import { checkDirectory, checkDiscovery, checkGit } from './surroundings.ts'

export const doctorUsage = 'doctor --configuration-file FILE [--pre] [--output json]'

export const options = {
  'configuration-file': { type: 'string' },
  pre: { type: 'boolean' },
  output: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

export const outputs: readonly string[] = ['text', 'json']

const help = `usage: kas ${doctorUsage}
  looks at what a configuration names from where kas runs, and says what is wrong, and what to do; it changes nothing
  --configuration-file FILE    of kas, with what the environment sets
  --pre                        kas does not run yet: no replica is asked
  --output json                in place of text
  exit code: 0 if no check has failed, 1 if one has, 2 if the command line is wrong
  Of secrets a fingerprint is shown. What each check is, and what it does not see: doc/doctor.md
`

interface DoctorContext {
  readonly io: CliIo
  readonly clock: Clock
}

/** `kas doctor`. @returns the exit code. @throws UsageError */
export async function doctor(args: readonly string[], { io, clock }: DoctorContext): Promise<number> {
  const { values } = parsedArgs({ args: [...args], options })
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const file = required(textOption(values, 'configuration-file'), '--configuration-file')
  const output = textOption(values, 'output') ?? 'text'
  if (!outputs.includes(output)) throw new UsageError(`--output ${output}: allowed is one of ${outputs.join(', ')}`)
  const findings = await findingsOf(file, { io, clock, isPre: values.pre ?? false })
  const failures = failuresOf(findings)
  io.stdout.write(output === 'json' ? `${printableJson({ findings, failures }, 2)}\n` : findingsText(findings))
  return failures > 0 ? 1 : 0
}

async function findingsOf(
  file: string,
  { io, clock, isPre }: DoctorContext & { readonly isPre: boolean },
): Promise<Finding[]> {
  let config: KasConfig
  let configured: Finding[]
  try {
    const loaded = await loadKasConfig(file, io.env)
    config = loaded.config
    configured = [
      { check: 'configuration', state: 'ok', text: `${file} can be used` },
      ...loaded.warnings.map(
        (one): Finding => ({ check: 'configuration', state: 'note', subject: one.key, text: warningReason(one) }),
      ),
    ]
  } catch (error) {
    const others = checkNames.filter((check) => check !== 'configuration')
    return [
      ...problemFindings('configuration', error),
      ...others.map((check): Finding => ({ check, state: 'skipped', text: 'the configuration cannot be used' })),
    ]
  }
  const checks: Readonly<Record<Exclude<CheckName, 'configuration'>, () => Promise<Finding[]>>> = {
    directory: () => checkDirectory(config),
    secrets: () => checkSecrets(config),
    certificates: () => checkCertificates(config, clock.now()),
    git: () => checkGit(config),
    discovery: () => checkDiscovery(config),
    gitlab: () => checkGitlab(config, io.env),
    replicas: async () =>
      isPre ? [{ check: 'replicas', state: 'skipped', text: '--pre: kas does not run yet' }] : checkReplicas(config),
  }
  const found = await Promise.all(Object.values(checks).map((check) => check()))
  return [...configured, ...found.flat()]
}

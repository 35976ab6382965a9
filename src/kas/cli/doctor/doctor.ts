import { readFile } from 'node:fs/promises'
import {
  boundedFindings,
  type Finding,
  failuresOf,
  findingsText,
  problemFindings,
  warningFinding,
} from '../../../lib/doctor/findings.ts'
import { checkProxies } from '../../../lib/doctor/proxy-findings.ts'
import { type Check, runChecks } from '../../../lib/doctor/run-checks.ts'
import { fileProblem } from '../../../lib/file-problem.ts'
import {
  type CliValues,
  type Command,
  type CommandContext,
  parsedArgs,
  required,
  textOption,
  UsageError,
} from '../../command/command.ts'
import { type Data, dataText, outputHelp, outputOptions, readPrinting } from '../../command/output.ts'
import { type LoadedKasConfig, loadKasConfig } from '../../config/kas-config.ts'
import type { KasConfig } from '../../config/kas-schema.ts'
import { checkCertificates } from './certificates.ts'
import { checkFront, type FrontOptions } from './front.ts'
import { checkGitlab } from './gitlab.ts'
import { checkKubernetes } from './kubernetes.ts'
import { checkListen } from './listen.ts'
import { withOrigins } from './origin.ts'
import type { DoctorReport } from './output-kinds.ts'
import { checkReplicas } from './replicas.ts'
import { checkSecrets } from './secrets.ts'
import { checkDirectory, checkDiscovery, checkGit } from './surroundings.ts'

const usage =
  'doctor --configuration-file FILE [--pre] [--agent-token-file FILE] [--kubernetes-api-url URL] [--idle SECONDS] [-o FORMAT]'

const options = {
  'configuration-file': { type: 'string' },
  pre: { type: 'boolean' },
  'agent-token-file': { type: 'string' },
  'kubernetes-api-url': { type: 'string' },
  'kubernetes-api-ca-file': { type: 'string' },
  idle: { type: 'string' },
  ...outputOptions,
  help: { type: 'boolean', short: 'h' },
} as const

const outputs = ['table', 'json', 'yaml'] as const

const help = `usage: kas ${usage}
  checks what a configuration names from where kas runs, and says what is wrong, and what to do; it changes nothing
  --configuration-file FILE    of kas, with what the environment sets
  --pre                        kas does not run yet: no replica is asked, and where it is to listen is taken for a moment
  --agent-token-file FILE      with the token of an agent, by which GitLab says where Gitaly is: it is asked, too
  --kubernetes-api-url URL     where kubectl reaches kas, as kubeconfigs name it: what is in front of kas is tried
  --kubernetes-api-ca-file FILE  an authority that is trusted there beside those of the system
  --idle SECONDS               how long an idle stream is to live there; it takes as long
${outputHelp(outputs)}  exit code: 0 if no check has failed, 1 if one has, 2 if the command line is wrong
  Of secrets a fingerprint is shown. What each check is, and what it does not see: doc/operate/doctor.md
`

interface Ground {
  readonly config: KasConfig
  readonly env: CommandContext['io']['env']
  readonly clock: CommandContext['clock']
  readonly isPre: boolean
  /** token of an agent; undefined: none is given */
  readonly token: string | undefined
  readonly front: Omit<FrontOptions, 'isPre'>
}

const checks: readonly Check<Ground>[] = [
  { name: 'listen', run: ({ config, isPre }) => checkListen(config, { isPre }) },
  { name: 'directory', run: ({ config }) => checkDirectory(config) },
  { name: 'secrets', run: ({ config }) => checkSecrets(config) },
  { name: 'certificates', run: ({ config, clock }) => checkCertificates(config, clock.now()) },
  { name: 'git', run: ({ config }) => checkGit(config) },
  { name: 'discovery', run: ({ config }) => checkDiscovery(config) },
  { name: 'kubernetes', run: ({ config, env }) => checkKubernetes(config, { env }) },
  { name: 'graces' },
  { name: 'proxies', run: ({ env }) => checkProxies(env) },
  { name: 'gitlab', run: ({ config, env, token }) => checkGitlab(config, { env, token }) },
  { name: 'gitaly', needs: ['gitlab'] },
  { name: 'clocks' },
  {
    name: 'replicas',
    run: ({ config, isPre }) =>
      isPre ? [{ state: 'skipped', text: '--pre: kas does not run yet' }] : checkReplicas(config),
  },
  { name: 'front', run: ({ config, front, isPre }) => checkFront(config, { ...front, isPre }) },
  { name: 'idle' },
]

/** Checks of `kas doctor`, in the order of doc/operate/doctor.md. */
export const checkNames: readonly string[] = ['configuration', ...checks.map(({ name }) => name)]

/** `kas doctor` */
export const doctor: Command = { usage, options, outputs, run }

/** @throws UsageError */
async function run(args: readonly string[], { io, clock }: CommandContext): Promise<number> {
  const { values } = parsedArgs({ args: [...args], options })
  if (values.help) {
    io.stdout.write(help)
    return 0
  }
  const file = required(textOption(values, 'configuration-file'), '--configuration-file')
  const { output } = readPrinting(values, outputs, io)
  const front = frontOf(values)
  const token = await tokenOf(values)
  const asked = { env: io.env, clock, isPre: values.pre ?? false, token, front }
  const findings = boundedFindings(await findingsOf(file, asked))
  const failures = failuresOf(findings)
  const table = () => findingsText(findings)
  const data: Data<DoctorReport> = { kind: 'DoctorReport', fields: { findings, failures }, table }
  io.stdout.write(await dataText(data, output))
  return failures > 0 ? 1 : 0
}

/** @throws UsageError */
async function tokenOf(values: CliValues): Promise<string | undefined> {
  const file = textOption(values, 'agent-token-file')
  if (file === undefined) return undefined
  try {
    return (await readFile(file, 'utf8')).trim()
  } catch (error) {
    throw new UsageError(`--agent-token-file: ${fileProblem(error)}`)
  }
}

/** the longest silence that `--idle` keeps, in seconds */
const maxIdleSeconds = 86_400

/** @throws UsageError */
function frontOf(values: CliValues): Omit<FrontOptions, 'isPre'> {
  const text = textOption(values, 'kubernetes-api-url')
  const caFile = textOption(values, 'kubernetes-api-ca-file')
  const idle = textOption(values, 'idle')
  const url = text !== undefined && /^https?:\/\//.test(text) && URL.canParse(text) ? new URL(text) : undefined
  if (text !== undefined && !url) throw new UsageError('--kubernetes-api-url: allowed is a URL of https:// or http://')
  if (url && (url.username || url.password || url.search || url.hash)) {
    throw new UsageError('--kubernetes-api-url: allowed is a URL without user, query and fragment')
  }
  const idleSeconds = idle === undefined ? undefined : /^\d{1,5}$/.test(idle) ? Number(idle) : 0
  if (idleSeconds !== undefined && (idleSeconds < 1 || idleSeconds > maxIdleSeconds)) {
    throw new UsageError(`--idle "${idle}": allowed is a number of seconds from 1 to ${maxIdleSeconds}`)
  }
  if (!url && (caFile !== undefined || idle !== undefined)) {
    throw new UsageError('--idle and --kubernetes-api-ca-file go with --kubernetes-api-url')
  }
  return { url, caFile, idleSeconds }
}

async function findingsOf(file: string, asked: Omit<Ground, 'config'>): Promise<Finding[]> {
  const { env } = asked
  let loaded: LoadedKasConfig
  try {
    loaded = await loadKasConfig(file, env)
  } catch (error) {
    const advice = `kas check-config --configuration-file ${file} names the lines`
    const problems = problemFindings('configuration', error)
    const configured = problems.map((one) => (one.state === 'failed' ? { ...one, advice } : one))
    return [...configured, ...(await runChecks(checks, undefined))]
  }
  const { config, warnings } = loaded
  const configured: Finding[] = [
    { check: 'configuration', state: 'ok', text: `${file} can be used` },
    ...warnings.map((one) => warningFinding('configuration', one)),
  ]
  return await withOrigins([...configured, ...(await runChecks(checks, { ...asked, config }))], { file, env })
}

import { kindWord } from '../../../../kubernetes/kind-words.ts'
import { type CliIo, type CliValues, textOption, UsageError } from '../../../command/command.ts'
import { readWaitTime } from '../../../command/wait-time.ts'
import { type Asked, addContextNamespace, readAsked, scopeOf } from './asked.ts'
import { readManifests, type Target } from './manifests.ts'
import { holdMs } from './stable-code.ts'

const usualLogLines = 20
/** lines of a log that a report may have */
const maxLogLines = 200

export interface GateOptions {
  readonly asked: Asked
  /** the objects to judge; undefined: the roots of the view */
  readonly targets: readonly Target[] | undefined
  /** true: an environment with several namespaces counts as one, because of `-A` or `-n` */
  readonly areNamespacesKnown: boolean
  /** undefined: only the current state is judged */
  readonly waitMs: number | undefined
  readonly stableMs: number
  readonly failsFast: boolean
  /** kinds, reasons, `KIND/NAME` */
  readonly ignored: readonly string[]
  /** true: a missing address counts as progressing */
  readonly wantsAddresses: boolean
  /** lines of a log; 0: none */
  readonly logLines: number
}

export const gateFlags = {
  wait: { type: 'string' },
  stable: { type: 'string' },
  filename: { type: 'string', short: 'f', multiple: true },
  ignore: { type: 'string', multiple: true },
  addresses: { type: 'boolean' },
  'no-fail-fast': { type: 'boolean' },
  logs: { type: 'string' },
} as const

/** Lines of the help of `kas health`. */
export const gateHelp = `  -f, --filename FILE                 judge the objects of these manifests, of a folder, or of stdin (-); may be repeated
  --wait TIME                         wait so long for it to become healthy, such as 5m (default: judge what is so now);
                                      the events and logs of what fails take at most 5 s more
  --stable TIME                       it has to stay healthy for so long (default: 5s)
  --ignore KIND|REASON|KIND/NAME      leave this out of the judgement, may be repeated
  --addresses                         an address that does not come counts as progressing, too
  --no-fail-fast                      go on waiting where something is degraded
  --logs LINES                        lines of the log that are printed of a container that fails (default: 20; at most 200)
  exit code: 0 healthy, or suspended, for the time of --stable; 3 progressing; 4 degraded; 5 unknown or not there;
             1 refused, or it failed; 2 the command line is wrong
`

/** @throws UsageError */
export async function readGate(
  positionals: readonly string[],
  given: CliValues,
  { io, namespace }: { readonly io: CliIo; readonly namespace?: string | undefined },
): Promise<GateOptions> {
  const ofJob = withJobsNamespace(positionals, given, io.env)
  const values = addContextNamespace(ofJob, namespace)
  const files = (values.filename ?? []) as readonly string[]
  const times = {
    waitMs: textOption(values, 'wait') === undefined ? undefined : timeOf(values, 'wait', 0),
    stableMs: timeOf(values, 'stable', holdMs),
  }
  const asked = readAsked(positionals, values)
  if (ofJob !== given && asked.query.scope?.environment !== undefined) {
    const { KUBE_NAMESPACE = '' } = io.env
    io.stderr.write(
      `kas: only namespace ${KUBE_NAMESPACE} of the environment is judged (KUBE_NAMESPACE): -A takes all\n`,
    )
  }
  if (values !== ofJob && positionals.length === 0 && files.length === 0)
    io.stderr.write(`kas: only namespace ${namespace} of the kubeconfig's context is judged: -A takes all\n`)
  if (asked.words.length > asked.names.length) throw new UsageError('what is judged is named as KIND/NAME')
  const nowhere = scopeOf(values) || values['all-namespaces'] === true ? undefined : asked.names.find(isInNamespace)
  // in all namespaces, objects of other people with this name would count, too
  if (nowhere) throw new UsageError(`${nowhere.kind}/${nowhere.name}: which namespace? -n NAMESPACE, or -A for all`)
  if (files.length > 0 && positionals.length > 0) throw new UsageError('-f beside KIND/NAME: one of both')
  const namespaces = asked.query.scope?.namespaces ?? []
  const targets = files.length > 0 ? await readManifests(files, io.stdin, namespaces[0]) : targetsOf(asked)
  return {
    asked: files.length > 0 ? ofTargets(asked, targets ?? []) : asked,
    targets,
    areNamespacesKnown: values['all-namespaces'] === true || namespaces.length > 0,
    ...times,
    failsFast: values['no-fail-fast'] !== true,
    ignored: ((values.ignore ?? []) as readonly string[]).flatMap((one) => one.split(',')).filter(Boolean),
    wantsAddresses: values.addresses === true,
    logLines: linesOf(values),
  }
}

function isInNamespace({ kind }: { kind: string }): boolean {
  return kindWord(kind).builtIn.some(({ isNamespaced }) => isNamespaced)
}

/** Adds the namespace of a CI job of GitLab if the scope is at most its environment, whose labels anyone can set. */
function withJobsNamespace(positionals: readonly string[], values: CliValues, env: CliIo['env']): CliValues {
  const named = ['namespace', 'all-namespaces', 'application'].some((name) => values[name] !== undefined)
  const isMeant = values.filename !== undefined || positionals.length > 0 || env.CI
  return named || !env.KUBE_NAMESPACE || !isMeant ? values : { ...values, namespace: [env.KUBE_NAMESPACE] }
}

function targetsOf({ query, names }: Asked): readonly Target[] | undefined {
  if (names.length === 0) return undefined
  const targets = (query.objects ?? []).map(({ kind, namespace, name = '' }) => ({
    kind,
    name,
    ...(namespace ? { namespace } : {}),
  }))
  return [...new Map(targets.map((one) => [JSON.stringify(one), one])).values()]
}

/** Replaces the scope by the targets' own namespaces: `-n` is for targets that name none. */
function ofTargets({ query }: Asked, targets: readonly Target[]): Asked {
  const { scope: _, ...rest } = query
  const objects = targets.map(({ kind, namespace, name, generation }) => ({
    kind,
    name,
    ...(namespace ? { namespace } : {}),
    ...(generation ? { generation } : {}),
  }))
  return { query: { ...rest, objects }, words: [...new Set(targets.map(({ kind }) => kind))], names: [] }
}

/** @throws UsageError */
function timeOf(values: CliValues, name: string, usual: number): number {
  const text = textOption(values, name)
  return text === undefined ? usual : readWaitTime(name, text)
}

function linesOf(values: CliValues): number {
  const text = textOption(values, 'logs')
  if (text === undefined) return usualLogLines
  if (/^\d{1,3}$/.test(text) && Number(text) <= maxLogLines) return Number(text)
  throw new UsageError(`--logs ${text}: allowed is a number of lines from 0 to ${maxLogLines}`)
}

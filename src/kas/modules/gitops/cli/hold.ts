import { discoverVersions } from '../../../../kubernetes/discover.ts'
import type { GroupVersion, Resource } from '../../../../kubernetes/discovery.ts'
import { kindKey } from '../../../../kubernetes/kind.ts'
import { kindWord } from '../../../../kubernetes/kind-words.ts'
import { entryAt } from '../../../../kubernetes/object.ts'
import { objectPath } from '../../../../kubernetes/path.ts'
import { parseDuration } from '../../../../lib/config.ts'
import { isPathSegment } from '../../../../lib/path-segment.ts'
import { printable } from '../../../../lib/printable.ts'
import { holdAnnotation } from '../../../../proto/gitops/annotations.ts'
import { maxHoldMs } from '../../../../proto/gitops/limits.ts'
import { inventoryLabel } from '../../../../proto/marks.ts'
import { askKas, KasRefused } from '../../../command/ask-kas.ts'
import { BadAnswer } from '../../../command/bad-answer.ts'
import {
  type CliValues,
  type Command,
  type CommandContext,
  parsedArgs,
  refuseEmpty,
  textOption,
  UsageError,
} from '../../../command/command.ts'
import { type Endpoint, endpointOf, namespaceOf } from '../../../command/endpoint.ts'

const usage = 'gitops hold KIND/NAME --for TIME [-n NAMESPACE] [--agent ID]'

/** Lines of `kas gitops --help` about this command. */
export const holdHelp = `usage: kas ${usage}\n  keeps a change of one object by hand for a time, although Git has it otherwise\n`

const wholeHelp = `${holdHelp}  KIND/NAME                           as kubectl takes it: deploy/web
  --for TIME                          such as 90m or 12h, at most 168h; 0s ends a hold
  -n, --namespace NAMESPACE           of the object (default: that of the context)
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  You need the right to get and patch the object. A commit that changes the object, and kas gitops resync, end the hold.
  exit code: 0 done, 1 it failed, 2 the command line is wrong
`

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  namespace: { type: 'string', short: 'n' },
  for: { type: 'string' },
  help: { type: 'boolean', short: 'h' },
} as const

const defaultNamespace = 'default'
/** Kubernetes' form of names, for the path: neither `.` nor `..` */
const nameForm = /^[A-Za-z0-9](?:[-A-Za-z0-9_.:]{0,251}[A-Za-z0-9])?$/

/** `kas gitops hold`: keeps a change by hand for a time. */
export const hold: Command = { usage, name: 'gitops', options, run }

/** @throws UsageError, Unreached, BadAnswer, KasRefused, Error: no source keeps the object */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  const { io, clock } = context
  if (values.help) {
    io.stdout.write(wholeHelp)
    return 0
  }
  const [, text, ...more] = positionals
  if (text === undefined || more.length > 0) throw new UsageError('allowed is one object, as KIND/NAME')
  const wanted = parseObject(text)
  const forMs = holdTime(values)
  const endpoint = await endpointOf(values, context)
  const namespace = textOption(values, 'namespace') ?? (await namespaceOf(values, io)) ?? defaultNamespace
  const path = await pathOf(endpoint, wanted, namespace)
  const live: unknown = JSON.parse(await askKas(endpoint, { method: 'GET', path }))
  const source = entryAt(live, 'metadata.labels', inventoryLabel)
  if (source === '') throw new Error(`${text}: no GitOps source keeps it, so that nothing sets it back`)
  const until = forMs === 0 ? null : new Date(clock.now() + forMs).toISOString()
  await askKas(endpoint, { method: 'PATCH', path, patch: { metadata: { annotations: { [holdAnnotation]: until } } } })
  const done =
    until === null
      ? `source ${source} sets ${text} back as its drift mode says`
      : `source ${source} leaves ${text} as it is until ${until}: kas gitops status names it`
  io.stdout.write(printable(done).concat('\n'))
  return 0
}

/** @returns ms; 0: the hold ends. @throws UsageError */
function holdTime(values: CliValues): number {
  refuseEmpty(values, ['for', 'namespace'])
  const text = textOption(values, 'for')
  if (text === undefined) throw new UsageError('--for says how long, such as --for 2h')
  const ms = parseDuration(text)
  if (ms !== undefined && ms <= maxHoldMs) return ms
  throw new UsageError(
    `--for ${text}: allowed is a time such as 90m or 12h, at most ${maxHoldMs / 3_600_000}h; 0s ends a hold`,
  )
}

interface WantedObject {
  /** word for its kind */
  readonly word: string
  readonly name: string
}

/** @throws UsageError */
function parseObject(text: string): WantedObject {
  const at = text.lastIndexOf('/')
  const [word, name] = [text.slice(0, Math.max(0, at)), text.slice(at + 1)]
  if (word !== '' && nameForm.test(name)) return { word, name }
  throw new UsageError(`${printable(text)}: allowed is KIND/NAME, such as deploy/web`)
}

/** Returns the path of an object. @throws Unreached, BadAnswer, Error: no kind has that name */
async function pathOf(endpoint: Endpoint, { word, name }: WantedObject, namespace: string): Promise<string> {
  const versions = await discoverVersions(discoveryOf(endpoint), new AbortController().signal)
  const { names } = kindWord(word)
  for (const version of versions) {
    const resource = version.resources.find((one) => isNamed(names, version, one))
    if (!resource) continue
    const { plural, isNamespaced } = resource
    if (![version.group, version.version, plural].every(isPathSegment)) {
      throw new BadAnswer(`the cluster names ${printable(word)} in a form that no kind has`)
    }
    return objectPath({ ...version, plural, isNamespaced }, { namespace, name })
  }
  throw new Error(`the cluster has no kind ${printable(word)}: kubectl api-resources lists those that it has`)
}

function isNamed(
  names: ReturnType<typeof kindWord>['names'],
  { group }: Pick<GroupVersion, 'group'>,
  { kind, plural, names: own, verbs }: Resource,
): boolean {
  if (plural.includes('/') || !verbs.includes('patch')) return false
  return names({ key: kindKey(group, kind), group, plural, names: own })
}

/** Discovers kinds through kas, as the caller. */
function discoveryOf(endpoint: Endpoint): Parameters<typeof discoverVersions>[0] {
  return {
    json: async (_, path, __, ___, { accept }) => {
      try {
        return { status: 200, body: JSON.parse(await askKas(endpoint, { method: 'GET', path, accept })) as unknown }
      } catch (error) {
        if (error instanceof KasRefused) return { status: error.status, body: undefined }
        throw error
      }
    },
  }
}

import * as z from 'zod'
import { namedVersions, resourcesOf } from '../../../../kubernetes/discovery.ts'
import { kindKey, parseKindKey } from '../../../../kubernetes/kind.ts'
import { groupsPath, versionPath } from '../../../../kubernetes/path.ts'
import { askKas } from '../../../command/ask-kas.ts'
import { readAnswer } from '../../../command/bad-answer.ts'
import { type Command, type CommandContext, parsedArgs, UsageError } from '../../../command/command.ts'
import { type Endpoint, endpointOf } from '../../../command/endpoint.ts'
import { readUpdate } from './received.ts'

const options = {
  kubeconfig: { type: 'string' },
  context: { type: 'string' },
  agent: { type: 'string' },
  'service-account': { type: 'string', default: 'agentk/agentk' },
  help: { type: 'boolean', short: 'h' },
} as const

const usage = `views role [--service-account NAMESPACE/NAME]
  prints a ClusterRole for the kinds that you may list and agentk may not, as kubectl apply takes it
  --kubeconfig FILE, --context NAME   of kas, as kubectl takes them (default: KUBECONFIG of the environment)
  --agent ID                          another agent than the one that the kubeconfig's token names
  --service-account NAMESPACE/NAME    whose rights these shall be (default: agentk/agentk)
  exit code: 0 done, 1 it failed, 2 the command line is wrong`

/** Time for an answer, in ms; kas waits 20 s for an agent. */
const timeoutMs = 25_000
/** Names from an agent become permissions of it once the role is applied: only names are accepted, and no Secrets. */
const groupPattern = /^[a-z0-9.-]*$/
const core = { group: '', version: 'v1' }
const namePattern = /^[a-z0-9-]+$/
const neverNamed: ReadonlySet<string> = new Set(['Secret'])

/** `kas views role` */
export const viewsRole: Command = { usage, name: 'views', options, run }

/** @throws UsageError, BadAnswer, Error with the answer of kas */
async function run(args: readonly string[], context: CommandContext): Promise<number> {
  const { io } = context
  const { values, positionals } = parsedArgs({ args: [...args], options, allowPositionals: true })
  if (values.help) {
    io.stdout.write(`usage: kas ${usage}\n`)
    return 0
  }
  if (positionals.join(' ') !== 'role') throw new UsageError('say what: kas views role')
  const [namespace, name, ...more] = values['service-account'].split('/')
  if (!namespace || !name || more.length > 0 || !/^[a-z0-9./-]+$/.test(values['service-account'])) {
    throw new UsageError(`--service-account ${values['service-account']}: allowed is NAMESPACE/NAME`)
  }
  const endpoint = await endpointOf(values, context)
  const kinds = await notFollowed(endpoint)
  const groups = await namesIn(endpoint, kinds)
  if (groups.size === 0) {
    io.stderr.write('kas: agentk follows all that you may list\n')
    return 0
  }
  io.stdout.write(boundRole('agentk-views-missing', groups, { namespace, name }))
  return 0
}

/** @returns `group/Kind` of kinds that are followed nowhere, or not in some namespace */
async function notFollowed(endpoint: Endpoint): Promise<Set<string>> {
  const { state } = readUpdate(await askKas(endpoint, { method: 'GET', path: '/views?view=list&limit=1', timeoutMs }))
  if (!state || state.is === 'syncing') throw new Error('the cluster is still being listed: ask again in a minute')
  const kinds = (state.notFollowed ?? []).filter((one) => !/ .*\//.test(one)) // without objects that are too large
  return new Set(kinds.map((one) => one.split(' ')[0] ?? '').filter((kind) => !neverNamed.has(kind)))
}

/** @returns plural names of kinds, by group; a kind that is no longer served is left out */
async function namesIn(endpoint: Endpoint, kinds: ReadonlySet<string>): Promise<Map<string, string[]>> {
  const ask = async (path: string) => readAnswer(z.unknown(), await askKas(endpoint, { method: 'GET', path }))
  const groups = Map.groupBy(kinds, (kind) => parseKindKey(kind).group)
  const served = namedVersions(await ask(groupsPath)) ?? []
  const found = new Map<string, string[]>()
  for (const [group, all] of [...groups].sort(([one], [other]) => (one < other ? -1 : 1))) {
    const preferred = group === '' ? core : served.find((one) => one.group === group)
    if (!groupPattern.test(group) || !preferred) continue
    const names = (resourcesOf(await ask(versionPath(preferred))) ?? []).flatMap(({ plural, kind }) => {
      const isName = namePattern.test(plural) // no subresource
      return isName && plural !== 'secrets' && all.includes(kindKey(group, kind)) ? [plural] : []
    })
    if (names.length > 0) found.set(group, names.sort())
  }
  return found
}

/**
 * Returns the manifest of a ClusterRole with get, list and watch, and of its binding.
 *
 * @param groups - plural names by API group. They are written to the YAML unquoted
 */
function boundRole(
  name: string,
  groups: ReadonlyMap<string, readonly string[]>,
  account: { readonly namespace: string; readonly name: string },
): string {
  return `apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: ${name}
${roleRules(groups)}---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: ${name}
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ${name} }
subjects:
  - { kind: ServiceAccount, name: ${account.name}, namespace: ${account.namespace} }
`
}

/** Returns the `rules` of such a role. */
export function roleRules(groups: ReadonlyMap<string, readonly string[]>): string {
  const rules = [...groups].map(([group, names]) => {
    const resources = names.map((one) => `      - ${one}\n`).join('')
    return `  - apiGroups: [${group === '' ? '""' : group}]\n    resources:\n${resources}    verbs: [get, list, watch]\n`
  })
  return `rules:\n${rules.join('')}`
}

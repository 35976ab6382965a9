import type { ConfigWarning } from '../../../lib/config.ts'
import { entriesNeeded, type ImpersonatedNames, isKasExtraKey, isKasName } from '../../../lib/impersonated-names.ts'
import type { GitopsBlock } from '../../../proto/gitops/schema.ts'
import type { AgentConfigurationFile } from '../../agent-config/agent-config-file.ts'

/** Form in the file, where a key without a value is null. */
type AsWritten<T> = { readonly [Key in keyof T]?: T[Key] | null }

interface EntryAsWritten {
  readonly access_as?: { readonly impersonate?: AsWritten<ImpersonatedNames> | null } | null
}

interface CiAccessAsWritten {
  readonly projects?: readonly EntryAsWritten[] | null
  readonly groups?: readonly EntryAsWritten[] | null
}

/** bound of the flags in a text, in characters, because names may be long */
const maxShown = 500

/**
 * Finds identities of a usable configuration that agentk refuses without certain flags: a warning for each, with the
 * flags.
 */
export function refusedByAgentk({ raw, blocks }: Pick<AgentConfigurationFile, 'raw' | 'blocks'>): ConfigWarning[] {
  const ci = raw.ci_access as CiAccessAsWritten | null | undefined
  const entries = (['projects', 'groups'] as const).flatMap((kind) =>
    (ci?.[kind] ?? []).flatMap(({ access_as: accessAs }, i) => {
      const { impersonate } = accessAs ?? {}
      return impersonate
        ? warningOf(
            `ci_access.${kind}[${i}].access_as.impersonate`,
            impersonate,
            'rbac.namespaces or impersonation.allowed',
          )
        : []
    }),
  )
  const { manifest_projects: sources = [] } = JSON.parse(blocks.get('gitops') ?? '{}') as GitopsBlock
  const accounts = sources.flatMap(({ access_as: accessAs }, i) => {
    const { namespace, name } = accessAs?.service_account ?? {}
    if (namespace === undefined) return []
    const username = `system:serviceaccount:${namespace}:${name}`
    return warningOf(`gitops.manifest_projects[${i}].access_as.service_account`, { username }, 'rbac.gitops.sources')
  })
  return [...entries, ...accounts]
}

function warningOf(key: string, identity: AsWritten<ImpersonatedNames>, values: string): ConfigWarning[] {
  const { username, groups, uid, extra } = identity
  const names = { username: username ?? '', groups: groups ?? [], uid: uid ?? '', extra: extra ?? [] }
  // kas itself reports that these names let no caller in
  if ([names.username, ...names.groups].some(isKasName) || names.extra.some((one) => isKasExtraKey(one.key))) return []
  const flags = entriesNeeded(names).map((entry) => `--may-impersonate=${entry}`)
  if (flags.length === 0) return []
  const text = flags.join(' ')
  const shown = text.length > maxShown ? `${text.slice(0, maxShown)}...` : text
  const hint = `agentk refuses these names by default: allow them by its flags ${shown}, or by the chart's value ${values}`
  return [{ kind: 'unserved', key, hint }]
}

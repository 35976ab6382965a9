import { matchesWildcard } from '../../../lib/wildcard.ts'
import type { Agent } from '../../agent.ts'
import type { AgentConfigurationFile, CiAccessAs, CiAccessEntry } from '../../agent-config/agent-config-file.ts'
import type { Job } from './directory-contents.ts'

export type CiAccessDecision =
  | { readonly allowed: true; readonly accessAs: CiAccessAs }
  /** `loud`: the file names the job's project, yet refuses it for a reason that its author should know */
  | { readonly allowed: false; readonly reason: string; readonly loud: boolean }

/**
 * Decides about a job's access to an agent, by the agent's configuration; `undefined`: there is no file yet. Only the
 * conditions of the closest entry count: the project's, then the agent's own project, then groups from the nearest up.
 *
 * @see doc/reference/gitlab-contract.md 4.2
 */
export function decideCiAccess(
  agent: Agent,
  job: Job,
  configuration: AgentConfigurationFile | undefined,
): CiAccessDecision {
  const entry = closestEntry(agent, job, configuration)
  if (!entry) return { allowed: false, reason: 'ci_access does not name the project of the job', loud: false }
  if (entry.refusal) return { allowed: false, reason: entry.refusal, loud: true }
  if (!passesEnvironments(entry, job)) return { allowed: false, reason: 'not in this environment', loud: false }
  return { allowed: true, accessAs: entry.accessAs }
}

const implicitEntry: CiAccessEntry = { accessAs: { as: 'agent' }, environments: [], defaultNamespace: '' }

function closestEntry(
  agent: Agent,
  { project }: Job,
  configuration: AgentConfigurationFile | undefined,
): CiAccessEntry | undefined {
  const own = configuration?.ciAccess.projects.get(project.path.toLowerCase())
  if (own) return own
  if (project.id === agent.project.id) return implicitEntry
  for (const group of project.groups) {
    const entry = configuration?.ciAccess.groups.get(group.path.toLowerCase())
    if (entry) return entry
  }
  return undefined
}

function passesEnvironments({ environments }: CiAccessEntry, { environment }: Job): boolean {
  if (environments.length === 0) return true
  const name = environment?.name ?? environment?.slug
  return name !== undefined && environments.some((pattern) => matchesWildcard(pattern, name))
}

import { UsageError } from '../../../../command/command.ts'
import { requireSource } from '../named-source.ts'
import type { ShownSource, ShownState } from '../state.ts'
import { nameOf } from '../status-text.ts'

/** Phases of sources that the configuration no longer has. */
const removedPhases = new Set(['KEPT', 'REMOVING'])

/**
 * Chooses the sources to compare with: those that are named, or all of the project. Where the repository names no project
 * of GitLab, it is the only source of the agent.
 *
 * @param names - names or ids
 * @param project - path of the repository's project, or with the root path of GitLab before it
 * @throws UsageError: the project has no source; Error: a name is unknown
 */
export function chosenSources(
  { sources }: Pick<ShownState, 'sources'>,
  names: readonly string[],
  project: string | undefined,
): readonly ShownSource[] {
  if (names.length > 0) return [...new Set(names.map((name) => requireSource(sources, name)))]
  const configured = sources.filter(({ phase }) => !removedPhases.has(phase))
  const own = sourcesOfProject(configured, project)
  if (own.length > 0) return own
  if (configured.length === 1 && (project === undefined || project.startsWith('/'))) return configured
  const known = configured.map(nameOf).join(', ') || 'none'
  const repository = project === undefined ? 'this repository, which has no remote origin' : project
  throw new UsageError(
    `no source of the agent belongs to ${repository}. Name one with --source. The agent has: ${known}`,
  )
}

/** GitLab may have a root path of its own, so the longest path counts that the address ends with. */
function sourcesOfProject(sources: readonly ShownSource[], address: string | undefined): readonly ShownSource[] {
  if (address === undefined) return []
  const whole = address.toLowerCase()
  const endings = sources.flatMap(({ project = '' }) => {
    const path = project.toLowerCase()
    return path !== '' && (whole === path || whole.endsWith(`/${path}`)) ? [path] : []
  })
  const longest = Math.max(0, ...endings.map(({ length }) => length))
  return sources.filter(({ project = '' }) => endings.includes(project.toLowerCase()) && project.length === longest)
}

import type { FollowedConfig } from '../../agent-config/agent-configs.ts'
import type { StatusLine } from '../../module.ts'

/** Agents that are named in `kas status`. */
const maxLines = 20

/** Of agents whose files are followed here: what GitLab will ask for in vain. */
export function unservedKeys(followed: readonly FollowedConfig[]): StatusLine[] {
  const lines = followed.flatMap(({ agent, good }): StatusLine[] => {
    const warning = good?.configuration.warnings.find(({ kind }) => kind === 'unserved')
    if (!warning) return []
    const of = `agent ${agent.id}, ${agent.name} of ${agent.project.path}`
    return [[of, `${warning.key} has no effect: ${warning.hint}`]]
  })
  if (lines.length <= maxLines) return lines
  return [...lines.slice(0, maxLines), ['and more such agents', lines.length - maxLines]]
}

import type { UserAccess } from '../repositories/agent-configuration.ts'
import type { DirectoryContents, Group, User } from './directory-contents.ts'
import { higherRole, isAtLeast, leastUserAccessRole, type RoleName, rolesUpTo } from './roles.ts'

interface Held {
  readonly id: bigint
  readonly roles: readonly RoleName[]
}

export type UserAccessDecision =
  | { readonly allowed: false }
  | { readonly allowed: true; readonly as: 'agent' }
  | {
      readonly allowed: true
      readonly as: 'user'
      readonly projects: readonly Held[]
      readonly groups: readonly Held[]
    }
  | { readonly allowed: true; readonly as: 'unknown'; readonly found: string }

/**
 * Whether a user may use an agent: who is developer or more in one of the projects or groups that `user_access` names.
 *
 * @see gitlab-contract 2.3
 */
export function decideUserAccess(
  user: User,
  access: UserAccess | undefined,
  contents: DirectoryContents,
): UserAccessDecision {
  if (!access || access.accessAs.as === 'none') return { allowed: false }
  const projects = access.projects.flatMap((path) =>
    held(contents.projectsByPath.get(path), (one) => roleInProject(user, one)),
  )
  const groups = access.groups.flatMap((path) =>
    held(contents.groupsByPath.get(path), (one) => roleInGroup(user, one, contents)),
  )
  if (projects.length + groups.length === 0) return { allowed: false }
  if (access.accessAs.as === 'unknown') return { allowed: true, as: 'unknown', found: access.accessAs.found }
  if (access.accessAs.as === 'agent') return { allowed: true, as: 'agent' }
  return { allowed: true, as: 'user', projects, groups }
}

function held<Place extends { readonly id: bigint }>(
  place: Place | undefined,
  roleIn: (place: Place) => RoleName | undefined,
): Held[] {
  const role = place && roleIn(place)
  return role && isAtLeast(role, leastUserAccessRole) ? [{ id: place.id, roles: rolesUpTo(role) }] : []
}

/** Own roles and those in the groups above. */
function roleInProject(user: User, { id, groups }: { id: bigint; groups: readonly Group[] }): RoleName | undefined {
  return groups.reduce((role, group) => higherRole(role, user.groupRoles.get(group.id)), user.projectRoles.get(id))
}

/** Own role and those in the groups above, which are told by their paths. */
function roleInGroup(user: User, { path }: Group, contents: DirectoryContents): RoleName | undefined {
  const segments = path.toLowerCase().split('/')
  let role: RoleName | undefined
  for (let depth = segments.length; depth > 0; depth--) {
    const group = contents.groupsByPath.get(segments.slice(0, depth).join('/'))
    role = higherRole(role, group && user.groupRoles.get(group.id))
  }
  return role
}

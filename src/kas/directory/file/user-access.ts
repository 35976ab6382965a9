import type { UserAccess } from '../../agent-config/agent-config-file.ts'
import type { DirectoryContents, Group, Project, User } from './directory-contents.ts'
import { higherRole, isAtLeast, leastUserAccessRole, type RoleName, rolesUpTo } from './roles.ts'

/** A project or a group in which the user has a sufficient role. */
interface PlaceWithRoles {
  readonly id: bigint
  readonly roles: readonly RoleName[]
}

export type UserAccessDecision =
  /** `reason`: the missing role and its place, for the log */
  | { readonly allowed: false; readonly reason: string }
  | { readonly allowed: true; readonly as: 'agent' }
  | {
      readonly allowed: true
      readonly as: 'user'
      readonly projects: readonly PlaceWithRoles[]
      readonly groups: readonly PlaceWithRoles[]
    }
  | { readonly allowed: true; readonly as: 'unknown'; readonly found: string }

/**
 * Decides about a user's access to an agent. It takes a role of developer or more in one of the projects or groups that
 * `user_access` names.
 *
 * @see doc/reference/gitlab-contract.md 2.3
 */
export function decideUserAccess(
  user: User,
  access: UserAccess | undefined,
  contents: DirectoryContents,
): UserAccessDecision {
  if (!access || access.accessAs.as === 'none')
    return { allowed: false, reason: 'it has no user_access with an access_as' }
  const projects = access.projects.flatMap((path) =>
    withRoles(contents.projectsByPath.get(path), (one) => roleInProject(user, one)),
  )
  const groups = access.groups.flatMap((path) =>
    withRoles(contents.groupsByPath.get(path), (one) => roleInGroup(user, one, contents)),
  )
  if (projects.length + groups.length === 0) return { allowed: false, reason: missingRole(access, contents) }
  if (access.accessAs.as === 'unknown') return { allowed: true, as: 'unknown', found: access.accessAs.found }
  if (access.accessAs.as === 'agent') return { allowed: true, as: 'agent' }
  return { allowed: true, as: 'user', projects, groups }
}

/** True if the user's role in the project is at least the one that `user_access` needs. */
export function hasAccessRole(user: User, project: Project): boolean {
  const role = roleInProject(user, project)
  return role !== undefined && isAtLeast(role, leastUserAccessRole)
}

/** Places of `user_access` that a reason names, and characters of each path. */
const maxNamed = { places: 5, characters: 100 }

function missingRole({ projects, groups }: UserAccess, { projectsByPath, groupsByPath }: DirectoryContents): string {
  const places = [
    ...projects.map((path) => placeText('project', path, projectsByPath.has(path))),
    ...groups.map((path) => placeText('group', path, groupsByPath.has(path))),
  ]
  if (places.length === 0) return 'its user_access names no project and no group'
  const more = places.length > maxNamed.places ? ` and ${places.length - maxNamed.places} more` : ''
  const named = places.slice(0, maxNamed.places).join(', ')
  return `the directory file gives the user no role of ${leastUserAccessRole} or above in any of its user_access: ${named}${more}`
}

function placeText(kind: 'project' | 'group', path: string, isKnown: boolean): string {
  return `${kind} ${path.slice(0, maxNamed.characters)}${isKnown ? '' : ' (which the directory file does not have)'}`
}

function withRoles<Place extends { readonly id: bigint }>(
  place: Place | undefined,
  roleIn: (place: Place) => RoleName | undefined,
): PlaceWithRoles[] {
  const role = place && roleIn(place)
  return role && isAtLeast(role, leastUserAccessRole) ? [{ id: place.id, roles: rolesUpTo(role) }] : []
}

/** Returns the highest of the user's roles in the project and in the groups above it. */
function roleInProject(user: User, { id, groups }: { id: bigint; groups: readonly Group[] }): RoleName | undefined {
  return groups.reduce((role, group) => higherRole(role, user.groupRoles.get(group.id)), user.projectRoles.get(id))
}

/** Returns the highest of the user's roles in the group and in the groups above it, found by their paths. */
function roleInGroup(user: User, { path }: Group, contents: DirectoryContents): RoleName | undefined {
  const segments = path.toLowerCase().split('/')
  let role: RoleName | undefined
  for (let depth = segments.length; depth > 0; depth--) {
    const group = contents.groupsByPath.get(segments.slice(0, depth).join('/'))
    role = higherRole(role, group && user.groupRoles.get(group.id))
  }
  return role
}

/** Roles of a user in a project or group, lowest first (doc/reference/gitlab-contract.md 2.3). */
export const roleNames = ['guest', 'planner', 'reporter', 'developer', 'maintainer', 'owner'] as const

export type RoleName = (typeof roleNames)[number]

/** The lowest role with access to an agent by user_access. */
export const leastUserAccessRole: RoleName = 'developer'

/** Returns the higher of two roles; undefined counts as no role. */
export function higherRole(one: RoleName | undefined, other: RoleName | undefined): RoleName | undefined {
  if (!one || !other) return one ?? other
  return roleNames.indexOf(one) >= roleNames.indexOf(other) ? one : other
}

export function isAtLeast(role: RoleName, least: RoleName): boolean {
  return roleNames.indexOf(role) >= roleNames.indexOf(least)
}

/** Returns `role` and all roles below it, lowest first. */
export function rolesUpTo(role: RoleName): readonly RoleName[] {
  return roleNames.slice(0, roleNames.indexOf(role) + 1)
}

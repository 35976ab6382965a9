import type { KasHost, KasModule } from '../../module.ts'
import { hookEndpoint } from './hook-endpoint.ts'
import { PollSharing } from './poll-sharing.ts'

/**
 * Lets one replica poll each repository for all, and hooks of Git servers announce pushes.
 *
 * @returns undefined: with GitLab, the replica that leads for an agent polls
 */
export function createRepositories({ repositories, peers, clock, ...host }: KasHost): KasModule | undefined {
  const { sharedPolls: polls, trees, pollAfterNotice, hookSecretFile, someHookSecretFile } = repositories
  if (!polls) return undefined
  const log = host.log.child({ mod_name: 'repositories' })
  const sharing = new PollSharing({
    polls,
    repositories: { pollAndReport: (projectId) => trees.pollAndReport(projectId), pollAfterNotice },
    peers,
    clock,
    log,
  })
  const poll = (projectId: bigint) => sharing.poll(projectId)
  return {
    name: 'repositories',
    replicaMethods: sharing.replicaMethods,
    services: [sharing],
    ...(hookSecretFile && someHookSecretFile
      ? { endpoints: [hookEndpoint({ hookSecretFile, someHookSecretFile, poll, clock, log })] }
      : {}),
    status: () => [['branches followed for replicas', sharing.followedForPeers]],
  }
}

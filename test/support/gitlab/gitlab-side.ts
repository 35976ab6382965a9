import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { GitlabClient, type GitlabClientOptions } from '../../../src/kas/directory/gitlab/gitlab-client.ts'
import {
  GitlabDirectory,
  type GitlabDirectoryComponents,
  type GitlabDirectoryOptions,
} from '../../../src/kas/directory/gitlab/gitlab-directory.ts'
import type { GitlabMetrics } from '../../../src/kas/directory/gitlab/gitlab-metrics.ts'
import type { Clock } from '../../../src/lib/clock.ts'
import { noTracer, type Tracer } from '../../../src/lib/tracing/tracer.ts'
import { capturedLog } from '../captured-log.ts'
import type { GitlabDouble } from './gitlab-double.ts'

export interface GitlabSideOptions {
  readonly clock?: Clock
  readonly tracer?: Tracer
  readonly client?: Partial<GitlabClientOptions>
  readonly directory?: Partial<GitlabDirectoryOptions>
  readonly onUnchecked?: GitlabDirectoryComponents['onUnchecked']
}

/** Lifetimes of stock kas. */
export const upstreamTtls = {
  infoTtlMs: 300_000,
  infoErrorTtlMs: 60_000,
  projectTtlMs: 300_000,
  projectErrorTtlMs: 60_000,
  accessTtlMs: 60_000,
  accessErrorTtlMs: 10_000,
}

const noGitlabMetrics: GitlabMetrics = {
  answered: () => undefined,
  waited: () => undefined,
  unchecked: () => undefined,
}

/** Creates a client without starting it; it ends with the test. */
export function createGitlabClient(
  t: Test,
  options: Pick<GitlabClientOptions, 'address' | 'secretFile'> & Partial<GitlabClientOptions>,
  components: Partial<ConstructorParameters<typeof GitlabClient>[0]> = {},
): GitlabClient {
  const client = new GitlabClient(
    { log: capturedLog().log, metrics: noGitlabMetrics, random: () => 0.5, tracer: noTracer, ...components },
    {
      refillPerSecond: 50,
      bucketSize: 250,
      userAgent: 'gitlab-kas/v18.5.0/abcdef',
      env: {},
      repeatMs: [1, 20],
      ...options,
    },
  )
  t.teardown(() => client.stop())
  return client
}

/** Starts kas' side of GitLab, the directory and its client, with a double. */
export async function startGitlabSide(t: Test, gitlab: GitlabDouble, options: GitlabSideOptions = {}) {
  const { log, lines } = capturedLog()
  const folder = await mkdtemp(join(tmpdir(), 'gitlab-side-')) // not t.testdir, which is the test's own
  t.teardown(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'secret'), `${gitlab.secret.toString('base64')}\n`)
  const clock = options.clock ? { clock: options.clock } : {}
  const { tracer = noTracer, onUnchecked } = options
  const place = { address: gitlab.address, secretFile: join(folder, 'secret') }
  const client = createGitlabClient(t, { ...place, ...options.client }, { log, ...clock, tracer })
  await client.start()
  const directory = new GitlabDirectory(
    { client, log, random: () => 0.5, ...clock, ...(onUnchecked ? { onUnchecked } : {}) },
    { ...upstreamTtls, pauseMs: 20, ...options.directory },
  )
  t.teardown(() => directory.stop())
  return { client, directory, log, lines }
}

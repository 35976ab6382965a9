import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { status } from '@grpc/grpc-js'
import t, { type Test } from 'tap'
import { kasConfigSchema } from '../../../src/kas/config/kas-schema.ts'
import type { KasError } from '../../../src/lib/errors.ts'
import type { FakeAgent } from '../../support/fake-agent.ts'
import { GitalyDouble } from '../../support/gitaly/gitaly-double.ts'
import { ServedRepository } from '../../support/gitaly/served-repository.ts'
import { suiteWorld } from '../../support/gitlab/gitlab-world.ts'
import { startWholeReplicas } from '../../support/gitlab/whole-replicas.ts'
import { openSynchronize, synchronize } from './stock-gitops.ts'

/** Effect of each key of kas' `agent.gitops` in a whole kas, with a value of its own and with the default. */

const own = 'platform/clusters'
const glob = (value: string) => ({ path: { case: 'glob' as const, value } })
const request = { projectId: own, paths: [glob('a.yaml'), glob('b/*.yaml')] }
const files = { 'a.yaml': 'a'.repeat(60), 'b/b.yaml': 'b'.repeat(60) }
const info = '/internal/kubernetes/project_info'

async function start(t: Test, gitops: string) {
  const folder = await mkdtemp(join(tmpdir(), 'kas-gitops-keys-'))
  t.teardown(() => rm(folder, { recursive: true, force: true, maxRetries: 5 }))
  const gitaly = await GitalyDouble.start(t, { folder })
  const world = suiteWorld()
  world.gitaly = { address: gitaly.address, token: gitaly.token }
  const repository = await ServedRepository.create(folder, '@hashed/1.git')
  await repository.push(files)
  await (await ServedRepository.create(folder, '@hashed/3.git')).push(files)
  const { replicas, gitlab } = await startWholeReplicas(t, 1, { world, gitops })
  return { repository, gitlab, agent: (await replicas[0]?.dial()) as FakeAgent }
}

type Side = Awaited<ReturnType<typeof start>>

/** Returns the files that the agent gets, or the error. */
async function outcome({ agent }: Side): Promise<string> {
  try {
    return [...((await synchronize(agent, request))?.files.keys() ?? [])].join()
  } catch (error) {
    const { grpcCode, message } = error as KasError
    return `${status[grpcCode]}: ${message.replace(/^.*manifest file: /, '')}`
  }
}

/** Returns how often kas asks GitLab while an agent asks three times for the files of a project. */
async function askedThrice({ agent, gitlab }: Side, projectId: string): Promise<string> {
  for (let i = 0; i < 3; i++) await synchronize(agent, { ...request, projectId }).catch(() => undefined)
  return gitlab.of(info).length > 1 ? 'each time' : `${gitlab.of(info).length}`
}

/** Pushes without a notification. Returns 'noticed' if kas finds the commit. */
async function untoldPush({ agent, repository }: Side): Promise<string> {
  const known = await synchronize(agent, request)
  const waiting = openSynchronize(agent, { ...request, commitId: known?.commitId ?? '' })
  await waiting.stream.metadata
  const commit = await repository.push({ 'a.yaml': 'pushed' })
  return (await waiting.round())?.commitId === commit ? 'noticed' : 'another commit'
}

interface Row {
  readonly value: string
  readonly does: (side: Side) => Promise<string>
  readonly expected: string
  /** result with the default; undefined: not tested, it would take long */
  readonly otherwise?: string
}

const both = 'a.yaml,b/b.yaml'
const rows: Readonly<Record<string, Row>> = {
  poll_period: { value: '100ms', does: untoldPush, expected: 'noticed' },
  project_info_cache_ttl: {
    value: '0s',
    does: (side) => askedThrice(side, 'other/thing'),
    expected: 'each time',
    otherwise: '1',
  },
  project_info_cache_error_ttl: {
    value: '0s',
    does: (side) => askedThrice(side, 'no/such'),
    expected: 'each time',
    otherwise: '1',
  },
  max_manifest_file_size: {
    value: '59',
    does: outcome,
    expected: 'FAILED_PRECONDITION: a.yaml: has 60 bytes, more than 59',
    otherwise: both,
  },
  max_total_manifest_file_size: {
    value: '119',
    does: outcome,
    expected: 'FAILED_PRECONDITION: b/b.yaml: with the files before it more than 119 bytes',
    otherwise: both,
  },
  max_number_of_paths: {
    value: '1',
    does: outcome,
    expected: 'INVALID_ARGUMENT: maximum number of GitOps paths per manifest project is 1, but 2 was requested',
    otherwise: both,
  },
  max_number_of_files: {
    value: '1',
    does: outcome,
    expected: 'FAILED_PRECONDITION: maximum number of files limit reached: 1',
    otherwise: both,
  },
}

t.strictSame(
  Object.keys(rows).sort(),
  Object.keys(kasConfigSchema.parse({ directory: { file: '/d.yaml' } }).agent.gitops).sort(),
  'each key has a row',
)

for (const [key, { value, does, expected, otherwise }] of Object.entries(rows)) {
  t.test(`agent.gitops.${key}`, async (t) => {
    t.equal(await does(await start(t, `${key}: ${value}`)), expected)
    if (otherwise !== undefined) t.equal(await does(await start(t, '')), otherwise)
  })
}

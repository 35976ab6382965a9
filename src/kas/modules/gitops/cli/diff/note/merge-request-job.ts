import type { Environment } from '../git.ts'

/** A job of a merge request pipeline of GitLab, which can write notes. */
export interface MergeRequestJob {
  /** address of GitLab's API: `https://gitlab.example.com/api/v4` */
  readonly api: URL
  /** id of the merge request's project */
  readonly project: string
  /** number of the merge request in its project */
  readonly mergeRequest: string
  readonly pipeline: bigint
  /** address of the pipeline's page; undefined: it is not known */
  readonly pipelinePage: string | undefined
  readonly commit: string
  /** token of a user, a project or a group, with the scope `api` */
  readonly token: string
  /** file with the authority of GitLab's certificate; undefined: a public one */
  readonly authorityFile: string | undefined
}

const numberForm = /^[1-9]\d{0,18}$/
const commitForm = /^[0-9a-f]{40}(?:[0-9a-f]{24})?$/
const tokenForm = /^[\x21-\x7e]{1,1000}$/
/** Address that can be the target of a link in Markdown. */
const pageForm = /^https?:\/\/[A-Za-z0-9.:[\]/_~%-]{1,1000}$/

/** @returns the job, or a sentence that says why there is no note */
export function readMergeRequestJob(env: Environment): MergeRequestJob | string {
  const { CI_API_V4_URL: api = '', CI_PIPELINE_ID: pipeline = '', CI_COMMIT_SHA: commit = '' } = env
  const { CI_MERGE_REQUEST_IID: mergeRequest = '', CI_PIPELINE_URL: page = '', GITLAB_TOKEN: given = '' } = env
  // the pipeline of a fork runs in the fork, and the merge request is elsewhere
  const project = env.CI_MERGE_REQUEST_PROJECT_ID || env.CI_PROJECT_ID || ''
  if (mergeRequest === '') return 'this is no job of a merge request pipeline: CI_MERGE_REQUEST_IID is not set'
  const token = given.trim()
  if (token === '') return 'GITLAB_TOKEN is not set; the token of the job cannot write notes'
  if (!tokenForm.test(token)) return 'GITLAB_TOKEN is no token'
  const wrong = [
    ...(isAddress(api) ? [] : ['CI_API_V4_URL']),
    ...(numberForm.test(project) ? [] : ['CI_PROJECT_ID']),
    ...(numberForm.test(mergeRequest) ? [] : ['CI_MERGE_REQUEST_IID']),
    ...(numberForm.test(pipeline) ? [] : ['CI_PIPELINE_ID']),
    ...(commitForm.test(commit) ? [] : ['CI_COMMIT_SHA']),
  ]
  if (wrong.length > 0) return `${wrong.join(', ')}: missing or wrong in the environment`
  return {
    api: new URL(api),
    project,
    mergeRequest,
    pipeline: BigInt(pipeline),
    pipelinePage: pageForm.test(page) ? page : undefined,
    commit,
    token,
    authorityFile: env.CI_SERVER_TLS_CA_FILE || undefined,
  }
}

function isAddress(text: string): boolean {
  return URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)
}

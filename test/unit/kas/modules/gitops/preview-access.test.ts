import t from 'tap'
import { checkPreviewer } from '../../../../../src/kas/modules/gitops/preview-access.ts'
import type { PreviewSource } from '../../../../../src/kas/modules/gitops/preview-source.ts'
import type { OwnCaller } from '../../../../../src/kas/own-endpoint.ts'
import { KasError } from '../../../../../src/lib/errors.ts'

type Who = NonNullable<OwnCaller['who']>

const who = (more: Partial<Who> = {}): Who => ({
  userId: 5n,
  isJob: false,
  projectIds: [],
  address: undefined,
  ...more,
})
const developers = (...of: readonly bigint[]) => ({
  isDeveloper: (user: bigint, project: bigint) => user === 5n && of.includes(project),
})

/** Returns undefined if the caller may preview a source of project 7, else the refusal. */
function refusal(
  caller: Who | undefined,
  preview: PreviewSource['preview'] = new Set(),
  directory?: ReturnType<typeof developers>,
): string | undefined {
  try {
    checkPreviewer({ ...(caller && { who: caller }) }, { id: '42-7-web', projectId: 7n, preview }, directory)
    return undefined
  } catch (error) {
    const { code, message } = KasError.from(error)
    return `${code} ${message}`
  }
}

t.test('jobs of the project, and users whose grant names it', async (t) => {
  t.equal(refusal(who({ isJob: true, projectIds: [7n] })), undefined)
  t.equal(refusal(who({ projectIds: [6n, 7n] })), undefined)
})

t.test('others are refused, with what to set', async (t) => {
  const text =
    'FORBIDDEN forbidden: only jobs and users of project 7 may preview changes of source 42-7-web. ' +
    'Add the number of your project to preview.projects of the source, in the file of the agent'
  t.equal(refusal(who({ isJob: true, projectIds: [8n] })), text)
  t.equal(refusal(who({ projectIds: [8n] })), text)
  t.equal(refusal(who()), text, 'also a user who acts as the agent')
  t.equal(refusal(undefined), text)
})

t.test('those of the projects that preview names', async (t) => {
  const preview = new Set([8n, 9n])
  t.equal(refusal(who({ isJob: true, projectIds: [9n] }), preview), undefined)
  t.equal(refusal(who({ projectIds: [8n] }), preview), undefined)
  t.equal(refusal(who({ projectIds: [7n] }), preview), undefined, 'its own project stays')
  t.match(
    refusal(who({ projectIds: [10n] }), preview),
    /of project 7, and of the projects in its preview\.projects, may preview/,
  )
})

t.test('without GitLab the role in the directory file counts, of users alone', async (t) => {
  t.equal(refusal(who(), new Set(), developers(7n)), undefined)
  t.equal(refusal(who(), new Set([8n]), developers(8n)), undefined)
  t.match(refusal(who(), new Set(), developers(8n)), /^FORBIDDEN/)
  t.match(refusal(who({ isJob: true, projectIds: [8n] }), new Set(), developers(7n)), /^FORBIDDEN/)
})

t.test('preview: none lets nobody', async (t) => {
  const text = 'FORBIDDEN forbidden: source 42-7-web has preview: none in the file of the agent'
  t.equal(refusal(who({ isJob: true, projectIds: [7n] }), 'none', developers(7n)), text)
})

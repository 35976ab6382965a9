import type { Clock } from '../../../lib/clock.ts'
import { KasError } from '../../../lib/errors.ts'
import type { LocalDirectory } from '../../directory/local-directory.ts'
import type { LongBody, OwnEndpoint, OwnRequest } from '../../own-endpoint.ts'
import type { AgentQuestions } from './agent-questions.ts'
import { readPreview } from './asked-preview.ts'
import { checkPreviewer } from './preview-access.ts'
import { type PreviewFormat, previewAnswer, previewFormats } from './preview-answer.ts'
import { type PreviewFilesOptions, previewFiles } from './preview-files.ts'
import { PreviewPlaces } from './preview-places.ts'
import { findSource, type SourceComponents } from './preview-source.ts'
import { sourceIdForm } from './source-row.ts'

/** Bytes of a tar. A repository has files that no source chooses: these are read, and not kept. */
const maxTarBytes = 128 * 1024 * 1024
/** Lowest rate of a tar: the largest one comes within 35 minutes. bytes per second */
const minTarBytesPerSecond = 64 * 1024
/** Longest wait for bytes of a tar that its rate does not cover: git and tar read a cold disk. ms */
const tarSlackMs = 15_000

const tarBody: LongBody = {
  maxBytes: maxTarBytes,
  minBytesPerSecond: minTarBytesPerSecond,
  slackMs: tarSlackMs,
}

export interface PreviewComponents extends SourceComponents {
  readonly clock: Clock
  readonly questions: Pick<AgentQuestions, 'preview' | 'checkPreview'>
  /** undefined: kas uses GitLab */
  readonly localDirectory: Pick<LocalDirectory, 'isDeveloper'> | undefined
}

/**
 * Serves `POST <prefix>gitops/diff?source=ID&format=FORMAT`: what a change would do to the cluster. The body is a tar of
 * the files that Git tracks (doc/reference/preview.md).
 */
export function previewEndpoint(components: PreviewComponents, options: PreviewFilesOptions): OwnEndpoint {
  const { questions, localDirectory } = components
  const places = new PreviewPlaces(components.clock)
  return {
    path: '/gitops/diff',
    methods: ['POST'],
    body: tarBody,
    serve: async (request) => {
      const { agentId, id: auditId } = request
      const { format, ...asked } = askedOf(request)
      request.shows?.(`source ${asked.source}`)
      questions.checkPreview(agentId)
      const source = await findSource(components, agentId, asked.source)
      checkPreviewer(request, source, localDirectory)
      const files = await previewFiles(request, source.choice, options)
      const ask = () => readPreview(questions, request, { ...asked, auditId, files })
      return previewAnswer(await places.run(request, ask), format)
    },
  }
}

interface Asked {
  readonly source: string
  readonly format: PreviewFormat
  readonly values: boolean
}

const parameters: readonly string[] = ['source', 'format', 'values']

/** @throws KasError BAD_REQUEST */
function askedOf({ query }: Pick<OwnRequest, 'query'>): Asked {
  for (const [name, values] of query) {
    if (!parameters.includes(name)) {
      throw bad(`the parameter ${JSON.stringify(name.slice(0, 64))} is not known: allowed are ${parameters.join(', ')}`)
    }
    if (values.length > 1) throw bad(`${name} stands more than once`)
  }
  const [source = '', text = 'text', values = 'false'] = parameters.map((name) => query.get(name)?.[0])
  if (!sourceIdForm.test(source)) throw bad('source: allowed is the id of a source, as gitops/state has it')
  const format = previewFormats.find((one) => one === text)
  if (!format) throw bad(`format: allowed is ${previewFormats.join(', ')}`)
  if (values !== 'true' && values !== 'false') throw bad('values: allowed is true or false')
  return { source, format, values: values === 'true' }
}

function bad(detail: string): KasError {
  return new KasError({ code: 'BAD_REQUEST', detail })
}

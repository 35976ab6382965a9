import { maxNoteCharacters } from '../../../preview/markdown-format.ts'
import { resultMarkdown } from '../print-results.ts'
import type { SourceResult } from '../source-result.ts'
import type { MergeRequestJob } from './merge-request-job.ts'

/** Subject of a note: there is one for each agent and source. */
export interface NoteSubject {
  /** id of the agent */
  readonly agent: string
  /** id of the source */
  readonly source: string
}

/** First line of a note. Texts of others come after it, so none of them can pass for it. */
const markerForm = /^<!-- kas diff agent=(\d{1,19}) source=([a-z0-9-]{1,110}) pipeline=(\d{1,19}) -->/

function marker({ agent, source }: NoteSubject, pipeline: bigint): string {
  return `<!-- kas diff agent=${agent} source=${source} pipeline=${pipeline} -->`
}

/** True if a note about it can be found again: agentk may report any text as id of a source. */
export function hasMarker(subject: NoteSubject): boolean {
  return notePipeline(marker(subject, 0n), subject) === 0n
}

/** @returns the pipeline that has written the note; undefined: it is no note about this */
export function notePipeline(body: string, { agent, source }: NoteSubject): bigint | undefined {
  const [, ofAgent, ofSource, pipeline = ''] = markerForm.exec(body) ?? []
  return ofAgent === agent && ofSource === source ? BigInt(pipeline) : undefined
}

type Place = Pick<MergeRequestJob, 'pipeline' | 'pipelinePage' | 'commit'>

/** Returns the text of a note, of `maxNoteCharacters` at most. */
export function noteText(agent: string, result: SourceResult, { pipeline, pipelinePage, commit }: Place): string {
  const page = pipelinePage === undefined ? String(pipeline) : `[${pipeline}](${pipelinePage})`
  const place = `\`kas diff\` of commit ${commit}, pipeline ${page}, agent ${agent}`
  const head = `${marker({ agent, source: result.source }, pipeline)}\n\n${place}\n\n`
  return `${head}${resultMarkdown(result, maxNoteCharacters - head.length)}`
}

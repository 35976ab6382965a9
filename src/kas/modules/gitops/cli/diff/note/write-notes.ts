import { withDeadline } from '../../../../../../lib/deadline.ts'
import { errorText } from '../../../../../../lib/errors.ts'
import { printable } from '../../../../../../lib/printable.ts'
import type { CommandContext } from '../../../../../command/command.ts'
import { resultCode, type SourceResult } from '../source-result.ts'
import { GitlabNotes } from './gitlab-notes.ts'
import { type MergeRequestJob, readMergeRequestJob } from './merge-request-job.ts'
import { hasMarker, notePipeline, noteText } from './note-text.ts'

/** Limit of all requests to GitLab for the notes of one command. ms */
const notesMs = 60_000

/** Limit of earlier notes about one source that are kept in mind: two jobs may have written one each. */
const maxEarlier = 100

/** A note that an earlier job has written. */
interface Earlier {
  readonly id: number
  readonly pipeline: bigint
}

/**
 * Writes a note about each source to the merge request: edits the one of an earlier job, or makes one if there are
 * changes. A note of a newer pipeline stays. A failure is one line on stderr, and changes no exit code.
 *
 * @param agent - id of the agent
 */
export async function writeNotes(
  results: readonly SourceResult[],
  agent: string,
  { io, clock }: Pick<CommandContext, 'io' | 'clock'>,
): Promise<void> {
  const say = (text: string) => io.stderr.write(printable(`kas diff: ${text}`).concat('\n'))
  const job = readMergeRequestJob(io.env)
  if (typeof job === 'string') return void say(`no note: ${job}`)
  const reason = () => new Error(`GitLab did not answer within ${notesMs / 1000} s`)
  try {
    await withDeadline({ ms: notesMs, clock, reason }, async (signal) => {
      const notes = new GitlabNotes(job, signal)
      const user = await notes.readUser()
      for (const result of results) {
        const done = await writeNote(notes, { job, agent, user }, result)
        if (done !== undefined) say(done)
      }
    })
  } catch (error) {
    say(`the note could not be written: ${errorText(error)}`)
  }
}

interface Writer {
  readonly job: MergeRequestJob
  /** id of the agent */
  readonly agent: string
  /** id of the token's user, whose notes may be edited */
  readonly user: number
}

/** @returns sentence about a note that was not written. @throws Error */
async function writeNote(notes: GitlabNotes, writer: Writer, result: SourceResult): Promise<string | undefined> {
  const { job, agent } = writer
  const { source } = result
  if (!hasMarker({ agent, source })) return `no note: the id of source ${source} is none`
  const text = noteText(agent, result, job)
  const [first, ...more] = await earlierNotes(notes, writer, source)
  const newer = [first, ...more].find((one) => one !== undefined && one.pipeline > job.pipeline)
  if (newer) return newerText(source, newer.pipeline)
  const read = first && (await notes.read(first.id)) // another job may have written it meanwhile
  const pipeline = read && earlierPipeline(read, writer, source)
  if (pipeline !== undefined && pipeline > job.pipeline) return newerText(source, pipeline)
  for (const { id } of more) await notes.delete(id)
  if (first && pipeline !== undefined) await notes.update(first.id, text)
  else if (resultCode(result) !== 0) {
    await notes.create(text)
    return await removeOlder(notes, writer, source)
  }
  return undefined
}

/** Jobs that run at once may have made a note each: that of the newest pipeline stays. */
async function removeOlder(notes: GitlabNotes, writer: Writer, source: string): Promise<string | undefined> {
  const all = await earlierNotes(notes, writer, source)
  const newest = all.toSorted((one, other) => Number(other.pipeline - one.pipeline))[0]
  for (const one of all) if (one !== newest) await notes.delete(one.id)
  return newest && newest.pipeline > writer.job.pipeline ? newerText(source, newest.pipeline) : undefined
}

function newerText(source: string, pipeline: bigint): string {
  return `the note about source ${source} stays: the newer pipeline ${pipeline} wrote it`
}

/** Finds the notes of earlier jobs about a source, the oldest first. */
async function earlierNotes(notes: GitlabNotes, writer: Writer, source: string): Promise<readonly Earlier[]> {
  const found: Earlier[] = []
  for await (const note of notes.list()) {
    const pipeline = earlierPipeline(note, writer, source)
    if (pipeline !== undefined && found.length < maxEarlier) found.push({ id: note.id, pipeline })
  }
  return found.sort((one, other) => one.id - other.id)
}

/** @returns undefined: another user has written it, or it is about something else */
function earlierPipeline(
  { body, author }: { readonly body: string; readonly author: { readonly id: number } },
  { agent, user }: Writer,
  source: string,
): bigint | undefined {
  return author.id === user ? notePipeline(body, { agent, source }) : undefined
}

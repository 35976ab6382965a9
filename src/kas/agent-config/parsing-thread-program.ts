import { parentPort } from 'node:worker_threads'
import { type ParsingJob, parsingAnswer } from './parsing-answer.ts'

/** What `ParsingThread` runs; an error that has no code ends the thread, and so reaches its owner. */
parentPort?.on('message', (job: ParsingJob) => parentPort?.postMessage(parsingAnswer(job)))

import { own } from './own-test.ts'

/** `tap` of one file among several in a process: an instance for each. */

export * from 'tap'
export default own()

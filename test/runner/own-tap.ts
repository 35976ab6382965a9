import { own } from './own-test.ts'

/** `tap` for one file among several in a process: each file gets its own instance. */

export * from 'tap'
export default own()

export interface Failure {
  name: string
  details: string
}

export interface Skip {
  name: string
  reason: string
}

/** Result of one test file. A test is a subtest without subtests, or a file without any. */
export interface FileResult {
  file: string
  durationMs: number
  passed: number
  failures: Failure[]
  skips: Skip[]
  /** comments of its tests, such as tables, in order */
  comments: string[]
  /** output of the file besides its results */
  output: string
}

export const emptyResult = (file: string): FileResult => ({
  file,
  durationMs: 0,
  passed: 0,
  failures: [],
  skips: [],
  comments: [],
  output: '',
})
